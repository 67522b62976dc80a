#include "collectives/algorithms/dissemination.hpp"

#include <utility>

namespace ucxring {

Schedule dissemination_barrier(const GroupShape& shape) {
  ScheduleBuilder builder(0, 0);
  for (int distance = 1; distance < shape.world_size; distance *= 2) {
    builder.send(shape.neighbor(distance), signal());
    builder.receive(shape.neighbor(-distance), signal());
  }
  return std::move(builder).build();
}

}  // namespace ucxring
