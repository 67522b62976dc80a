#include "collectives/algorithms/pairwise.hpp"

#include <utility>

namespace ucxring {

Schedule pairwise_all_to_all(const GroupShape& shape) {
  ScheduleBuilder builder(shape.world_size, shape.world_size);
  for (int distance = 1; distance < shape.world_size; ++distance) {
    const Rank target = shape.neighbor(distance);
    const Rank source = shape.neighbor(-distance);
    builder.send(target, input(target.value));
    builder.receive(source, output(source.value));
  }
  builder.copy(input(shape.rank.value), output(shape.rank.value));
  return std::move(builder).build();
}

}  // namespace ucxring
