#include "collectives/algorithms/recursive_doubling.hpp"

#include <bit>
#include <utility>

namespace ucxring {
namespace {

/// The power of two of ranks that double. The first 2·extra ranks take part in pairs, for which the odd one
/// stands.
struct Doubling {
  int size;
  int extra;

  explicit Doubling(int world_size)
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(world_size)))), extra(world_size - size) {}
  /// Place of a rank that takes part; −1 for an even rank of a pair.
  [[nodiscard]] int place_of(Rank rank) const {
    if (rank.value >= 2 * extra) return rank.value - extra;
    return rank.value % 2 == 1 ? rank.value / 2 : -1;
  }
  [[nodiscard]] Rank rank_at(int place) const { return Rank(place < extra ? 2 * place + 1 : place + extra); }
};

}  // namespace

Schedule recursive_doubling_all_reduce(const GroupShape& shape) {
  const Doubling doubling(shape.world_size);
  const int place = doubling.place_of(shape.rank);
  const bool paired = shape.rank.value < 2 * doubling.extra;
  ScheduleBuilder builder(1, 1);

  if (place < 0) {
    builder.send(shape.neighbor(1), input(0)).receive(shape.neighbor(1), output(0));
    return std::move(builder).build();
  }
  ChunkRef sum = input(0);
  if (paired) {
    sum = builder.scratch(input(0));
    builder.receive_reduce_before(shape.neighbor(-1), input(0), sum);
  }
  for (int distance = 1; distance < doubling.size; distance *= 2) {
    const Rank partner = doubling.rank_at(place ^ distance);
    const bool lower = shape.rank < partner;
    const bool last = 2 * distance == doubling.size;
    builder.send(partner, sum);
    if (last && sum == input(0)) {  // In place, the result would overwrite what is being sent.
      const ChunkRef theirs = builder.scratch(input(0));
      builder.receive(partner, theirs);
      builder.reduce(lower ? sum : theirs, lower ? theirs : sum, output(0));
      break;
    }
    const ChunkRef next = last ? output(0) : builder.scratch(input(0));
    if (lower) {
      builder.receive_reduce(partner, sum, next);
    } else {
      builder.receive_reduce_before(partner, sum, next);
    }
    sum = next;
  }
  builder.completes();
  if (paired) builder.send(shape.neighbor(-1), output(0));
  return std::move(builder).build();
}

}  // namespace ucxring
