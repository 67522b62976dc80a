#include "collectives/algorithms/chain.hpp"

#include <utility>

namespace ucxring {

Schedule chain_broadcast(const GroupShape& shape) {
  const int place = shape.wrap(shape.rank.value - shape.root.value);
  const bool is_root = place == 0;
  const bool is_last = place == shape.world_size - 1;
  ScheduleBuilder builder(is_root ? 1 : 0, 1);
  if (!is_root) builder.receive(shape.neighbor(-1), output(0));
  if (!is_last) builder.send(shape.neighbor(1), is_root ? input(0) : output(0));
  if (is_root) builder.copy(input(0), output(0));
  return std::move(builder).build();
}

}  // namespace ucxring
