#include "collectives/algorithms/binomial.hpp"

#include <bit>
#include <utility>

namespace ucxring {

Schedule binomial_broadcast(const GroupShape& shape) {
  // Place 0 is the root. A place receives from the one without its lowest bit, and sends to those with one
  // lower bit.
  const auto p = static_cast<unsigned>(shape.world_size);
  const auto place = static_cast<unsigned>(shape.wrap(shape.rank.value - shape.root.value));
  const bool is_root = place == 0;
  const unsigned lowest_bit = is_root ? std::bit_ceil(p) : place & (~place + 1);

  ScheduleBuilder builder(is_root ? 1 : 0, 1);
  if (!is_root) builder.receive(shape.neighbor(-static_cast<int>(lowest_bit)), output(0));
  for (unsigned bit = lowest_bit / 2; bit > 0; bit /= 2) {
    if (place + bit >= p) continue;
    builder.send(shape.neighbor(static_cast<int>(bit)), is_root ? input(0) : output(0));
  }
  if (is_root) builder.copy(input(0), output(0));
  return std::move(builder).build();
}

}  // namespace ucxring
