#include "collectives/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "transport/base/error.hpp"

namespace ucxring {
namespace {

void expect_contiguous(const ChunkMap& map, std::size_t total_bytes) {
  std::size_t offset = 0;
  for (const Extent& extent : map) {
    EXPECT_EQ(extent.offset, offset);
    offset += extent.bytes;
  }
  EXPECT_EQ(offset, total_bytes);
}

std::size_t spread(const ChunkMap& map) {
  const auto smaller = [](const Extent& one, const Extent& other) { return one.bytes < other.bytes; };
  const auto [least, most] = std::minmax_element(map.begin(), map.end(), smaller);
  return most->bytes - least->bytes;
}

TEST(Partition, CoversEveryElementOnceInNearlyEqualChunks) {
  for (const std::size_t element_bytes : {1u, 2u, 4u, 8u, 12u, 16u, 100u}) {
    const std::size_t grain = std::max<std::size_t>(1, 64 / element_bytes);
    for (int chunks = 1; chunks <= 17; ++chunks) {
      for (std::size_t count = 0; count < 700; count += count < 70 ? 1 : 13) {
        const ChunkMap map = partition(count, chunks, element_bytes);
        ASSERT_EQ(map.size(), static_cast<std::size_t>(chunks));
        expect_contiguous(map, count * element_bytes);
        const bool whole_grains = count / grain >= map.size();
        EXPECT_LE(spread(map), (whole_grains ? grain : 1) * element_bytes)
            << count << " elements of " << element_bytes << " in " << chunks;
      }
    }
  }
}

TEST(Partition, StartsChunksOnCacheLinesWhenThereAreEnough) {
  for (const Extent& extent : partition(1000, 7, 4)) EXPECT_EQ(extent.offset % 64, 0u);
}

TEST(Partition, LeavesLateChunksEmptyWhenElementsAreFew) {
  const ChunkMap map = partition(3, 5, 8);
  std::vector<std::size_t> sizes;
  for (const Extent& extent : map) sizes.push_back(extent.bytes);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{8, 8, 8, 0, 0}));
}

TEST(Partition, HandlesBigVectors) {
  const std::size_t count = std::size_t{1} << 45;
  const ChunkMap map = partition(count, 4096, 8);
  expect_contiguous(map, count * 8);
  EXPECT_EQ(spread(map), 0u);
}

TEST(Partition, OfNoChunksIsEmpty) { EXPECT_TRUE(partition(0, 0, 4).empty()); }

TEST(Partition, RefusesNonsense) {
  EXPECT_THROW((void)partition(1, -1, 4), Error);
  EXPECT_THROW((void)partition(1, 1, 0), Error);
}

TEST(PartitionByCounts, PacksCountsOneAfterTheOther) {
  const std::array<std::size_t, 4> counts{3, 0, 5, 1};
  const ChunkMap map = partition_by_counts(counts, 4);
  ASSERT_EQ(map.size(), 4u);
  expect_contiguous(map, 36);
  for (std::size_t i = 0; i < counts.size(); ++i) EXPECT_EQ(map[i].bytes, counts[i] * 4);
  EXPECT_TRUE(partition_by_counts({}, 4).empty());
}

}  // namespace
}  // namespace ucxring
