#include "collectives/algorithms/binomial.hpp"

#include <bit>
#include <utility>

#include "collectives/algorithms/steps.hpp"

namespace ucxring {

namespace {

/// The distance of `place` to its parent; of the root, above all distances.
unsigned lowest_bit_of(unsigned place, unsigned size) {
  return place == 0 ? std::bit_ceil(size) : place & (~place + 1);
}

}  // namespace

void spread_by_binomial_tree(ScheduleBuilder& builder, std::span<const Rank> ranks, int self) {
  // A place receives from the one without its lowest bit, and sends to those with one lower bit.
  const auto place = static_cast<unsigned>(self);
  const auto size = static_cast<unsigned>(ranks.size());
  const unsigned lowest_bit = lowest_bit_of(place, size);
  if (place > 0) builder.receive(ranks[place - lowest_bit], output(0));
  for (unsigned bit = lowest_bit / 2; bit > 0; bit /= 2) {
    if (place + bit < size) builder.send(ranks[place + bit], place == 0 ? input(0) : output(0));
  }
}

void collect_by_binomial_tree(ScheduleBuilder& builder, std::span<const Rank> ranks, int self, ChunkRef own) {
  const auto place = static_cast<unsigned>(self);
  const auto size = static_cast<unsigned>(ranks.size());
  const unsigned lowest_bit = lowest_bit_of(place, size);
  std::vector<Rank> children;
  for (unsigned bit = 1; bit < lowest_bit && place + bit < size; bit *= 2) {
    children.push_back(ranks[place + bit]);
  }
  const ChunkRef sum = add_up(builder, children, own, place == 0 ? output(0) : signal());
  if (place == 0) {
    builder.completes();
  } else {
    builder.send(ranks[place - lowest_bit], sum);
  }
}

Schedule binomial_reduce(const GroupShape& shape) {
  const int place = shape.wrap(shape.rank.value - shape.root.value);
  ScheduleBuilder builder(1, place == 0 ? 1 : 0);
  collect_by_binomial_tree(builder, ranks_from(shape.root, shape.world_size), place, input(0));
  return std::move(builder).build();
}

Schedule binomial_broadcast(const GroupShape& shape) {
  const int place = shape.wrap(shape.rank.value - shape.root.value);
  ScheduleBuilder builder(place == 0 ? 1 : 0, 1);
  spread_by_binomial_tree(builder, ranks_from(shape.root, shape.world_size), place);
  if (place == 0) builder.copy(input(0), output(0));
  return std::move(builder).build();
}

}  // namespace ucxring
