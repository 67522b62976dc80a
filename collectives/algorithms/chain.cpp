#include "collectives/algorithms/chain.hpp"

#include <utility>

#include "collectives/algorithms/steps.hpp"

namespace ucxring {

void spread_along_chain(ScheduleBuilder& builder, std::span<const Rank> ranks, int self) {
  const auto place = static_cast<std::size_t>(self);
  if (place > 0) builder.receive(ranks[place - 1], output(0));
  if (place + 1 < ranks.size()) builder.send(ranks[place + 1], place == 0 ? input(0) : output(0));
}

void collect_along_chain(ScheduleBuilder& builder, std::span<const Rank> ranks, int self, ChunkRef own) {
  const auto place = static_cast<std::size_t>(self);
  const auto after = ranks.subspan(place + 1, place + 1 < ranks.size() ? 1 : 0);
  const ChunkRef sum = add_up(builder, after, own, place == 0 ? output(0) : signal());
  if (place == 0) {
    builder.completes();
  } else {
    builder.send(ranks[place - 1], sum);
  }
}

Schedule chain_reduce(const GroupShape& shape) {
  const int place = shape.wrap(shape.rank.value - shape.root.value);
  ScheduleBuilder builder(1, place == 0 ? 1 : 0);
  collect_along_chain(builder, ranks_from(shape.root, shape.world_size), place, input(0));
  return std::move(builder).build();
}

Schedule chain_broadcast(const GroupShape& shape) {
  const int place = shape.wrap(shape.rank.value - shape.root.value);
  ScheduleBuilder builder(place == 0 ? 1 : 0, 1);
  spread_along_chain(builder, ranks_from(shape.root, shape.world_size), place);
  if (place == 0) builder.copy(input(0), output(0));
  return std::move(builder).build();
}

}  // namespace ucxring
