#include "collectives/algorithms/bruck.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace ucxring {
namespace {

/// The distances below `world_size` that have `bit`.
std::vector<int> distances_with(int bit, int world_size) {
  std::vector<int> distances;
  for (int distance = bit; distance < world_size; ++distance) {
    if ((distance & bit) != 0) distances.push_back(distance);
  }
  return distances;
}

int largest_message(int world_size) {
  std::size_t largest = 1;
  for (int bit = 1; bit < world_size; bit *= 2) {
    largest = std::max(largest, distances_with(bit, world_size).size());
  }
  return static_cast<int>(largest);
}

}  // namespace

Schedule bruck_all_to_all(const GroupShape& shape) {
  const int p = shape.world_size;
  ScheduleBuilder builder(p, p, largest_message(p));
  // Where the chunk lies here that has to go, or has come, so many ranks further in all.
  std::vector<ChunkRef> travelling;
  for (int distance = 0; distance < p; ++distance) {
    travelling.push_back(input(shape.wrap(shape.rank.value + distance)));
  }
  for (int bit = 1; bit < p; bit *= 2) {
    const std::vector<int> distances = distances_with(bit, p);
    const int chunks = static_cast<int>(distances.size());
    const ChunkRef leaving = builder.bundle(input(0), chunks);
    const ChunkRef arriving = builder.bundle(input(0), chunks);
    for (int i = 0; i < chunks; ++i) {
      auto& chunk = travelling[static_cast<std::size_t>(distances[static_cast<std::size_t>(i)])];
      builder.copy(chunk, leaving.part(i));
      chunk = arriving.part(i);
    }
    builder.send(shape.neighbor(bit), leaving);
    builder.receive(shape.neighbor(-bit), arriving);
  }
  for (int distance = 0; distance < p; ++distance) {
    builder.copy(travelling[static_cast<std::size_t>(distance)],
                 output(shape.wrap(shape.rank.value - distance)));
  }
  return std::move(builder).build();
}

}  // namespace ucxring
