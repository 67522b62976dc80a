#include "collectives/algorithms/dissemination.hpp"

#include <utility>

#include "collectives/algorithms/steps.hpp"

namespace ucxring {

void disseminate(ScheduleBuilder& builder, std::span<const Rank> ranks, int self) {
  const std::size_t size = ranks.size();
  const auto place = static_cast<std::size_t>(self);
  for (std::size_t distance = 1; distance < size; distance *= 2) {
    builder.send(ranks[(place + distance) % size], signal());
    builder.receive(ranks[(place + size - distance) % size], signal());
  }
}

Schedule dissemination_barrier(const GroupShape& shape) {
  ScheduleBuilder builder(0, 0);
  disseminate(builder, ranks_from(Rank(0), shape.world_size), shape.rank.value);
  return std::move(builder).build();
}

}  // namespace ucxring
