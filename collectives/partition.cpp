#include "collectives/partition.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "transport/base/error.hpp"

namespace ucxring {
namespace {

constexpr std::size_t kCacheLineBytes = 64;

}  // namespace

ChunkMap partition(std::size_t count, int chunks, std::size_t element_bytes) {
  if (chunks < 0 || element_bytes == 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cannot cut elements of {} bytes into {} chunks", element_bytes, chunks));
  }
  ChunkMap map(static_cast<std::size_t>(chunks));
  if (map.empty()) return map;
  const std::size_t line = std::max<std::size_t>(1, kCacheLineBytes / element_bytes);
  const std::size_t grain = count / line >= map.size() ? line : 1;
  const std::size_t grains = count / grain;
  const std::size_t share = grains / map.size();
  const std::size_t extra = grains % map.size();
  std::size_t first = 0;
  for (std::size_t i = 0; i < map.size(); ++i) {
    // The last chunk never gets an extra grain, so it has room for the elements that fill none.
    const bool last = i + 1 == map.size();
    const std::size_t elements = last ? count - first : (share + (i < extra ? 1 : 0)) * grain;
    map[i] = {.offset = first * element_bytes, .bytes = elements * element_bytes};
    first += elements;
  }
  return map;
}

ChunkMap partition_by_counts(std::span<const std::size_t> counts, std::size_t element_bytes) {
  ChunkMap map;
  map.reserve(counts.size());
  std::size_t offset = 0;
  for (const std::size_t count : counts) {
    map.push_back({.offset = offset, .bytes = count * element_bytes});
    offset += map.back().bytes;
  }
  return map;
}

}  // namespace ucxring
