// Copies past the caches: the same bytes as any copy, and nothing beside them.
#include "collectives/reduce/streaming_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "collectives/lane_memory.hpp"

namespace ucxring {
namespace {

TEST(StreamingCopy, EveryAlignmentAndSize) {
  constexpr std::size_t kRoom = 512;
  std::vector<std::uint8_t> source(kRoom);
  std::iota(source.begin(), source.end(), std::uint8_t{1});
  for (std::size_t to = 64; to < 128; ++to) {
    for (const std::size_t from : {0, 1, 15, 16, 63}) {
      for (const std::size_t bytes : {0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 200, 300}) {
        std::vector<std::uint8_t> target(kRoom, 0);
        auto expected = target;
        std::copy_n(source.data() + from, bytes, expected.data() + to);
        streaming_copy(target.data() + to, source.data() + from, bytes);
        ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

TEST(StreamingCopy, LargestCacheIsPlausible) {
  EXPECT_GE(largest_cache_bytes(), std::size_t{256} << 10U);
  EXPECT_LE(largest_cache_bytes(), std::size_t{1} << 30U);
}

/// A plan for one of two ranks of a host whose cache has 1 MiB.
Plan plan_of(Collective collective, std::size_t count) {
  PlanEnvironment environment;
  environment.rank = Rank(0);
  environment.world_size = 2;
  environment.hosts = {0, 0};
  environment.cache_bytes = std::size_t{1} << 20U;
  const std::string_view algorithm = "direct";
  return make_plan({collective, DataType::uint8, ReduceOp::sum, 0, count}, environment,
                   find_algorithm(collective, algorithm));
}

TEST(StreamingCopy, PlansStreamWhatTheCacheCannotHold) {
  // Each rank has one part as input and two as output.
  EXPECT_FALSE(plan_of(Collective::all_gather, (std::size_t{512} << 10U) / 3).streams);
  EXPECT_TRUE(plan_of(Collective::all_gather, (std::size_t{512} << 10U) / 3 + 1).streams);
  EXPECT_FALSE(plan_of(Collective::broadcast, 1000).streams);
}

TEST(StreamingCopy, LanesCopyTheSameEitherWay) {
  constexpr std::size_t kCount = 700'001;
  const Plan plan = plan_of(Collective::all_gather, kCount);
  ASSERT_TRUE(plan.streams);
  std::vector<std::byte> input(kCount);
  for (std::size_t i = 0; i < kCount; ++i) input[i] = static_cast<std::byte>(i % 251);
  std::vector<std::byte> output(2 * kCount);
  for (const Step& step : plan.schedule.steps) {
    if (step.action != Action::local) continue;
    for (std::uint64_t lane = 0; lane < plan.lanes; ++lane) {
      LaneMemory{&plan, {input.data(), output.data()}, nullptr, lane}.run_local(step);
    }
  }
  EXPECT_TRUE(std::equal(input.begin(), input.end(), output.begin()));
}

}  // namespace
}  // namespace ucxring
