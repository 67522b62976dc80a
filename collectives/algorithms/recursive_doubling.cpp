#include "collectives/algorithms/recursive_doubling.hpp"

#include <bit>
#include <utility>

#include "collectives/algorithms/steps.hpp"

namespace ucxring {
namespace {

/// The power of two of members that double. The first 2·extra members take part in pairs, for which the odd
/// one stands.
struct Doubling {
  int size;
  int extra;

  explicit Doubling(int members)
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(members)))), extra(members - size) {}
  /// Place among those that double; −1 for an even member of a pair.
  [[nodiscard]] int place_of(int member) const {
    if (member >= 2 * extra) return member - extra;
    return member % 2 == 1 ? member / 2 : -1;
  }
  [[nodiscard]] int member_at(int place) const { return place < extra ? 2 * place + 1 : place + extra; }
};

}  // namespace

void double_recursively(ScheduleBuilder& builder, std::span<const Rank> ranks, int self, ChunkRef own) {
  const Doubling doubling(static_cast<int>(ranks.size()));
  const auto rank_of = [&](int member) { return ranks[static_cast<std::size_t>(member)]; };
  const int place = doubling.place_of(self);
  const bool paired = self < 2 * doubling.extra;

  if (place < 0) {
    builder.send(rank_of(self + 1), own).receive(rank_of(self + 1), output(0));
    return;
  }
  ChunkRef sum = own;
  if (paired) {
    sum = builder.scratch(own);
    builder.receive_reduce_before(rank_of(self - 1), own, sum);
  }
  for (int distance = 1; distance < doubling.size; distance *= 2) {
    const Rank partner = rank_of(doubling.member_at(place ^ distance));
    const bool lower = (place & distance) == 0;
    const bool last = 2 * distance == doubling.size;
    builder.send(partner, sum);
    if (last && sum == input(0)) {  // In place, the result would overwrite what is being sent.
      const ChunkRef theirs = builder.scratch(own);
      builder.receive(partner, theirs);
      builder.reduce(lower ? sum : theirs, lower ? theirs : sum, output(0));
      break;
    }
    const ChunkRef next = last ? output(0) : builder.scratch(own);
    if (lower) {
      builder.receive_reduce(partner, sum, next);
    } else {
      builder.receive_reduce_before(partner, sum, next);
    }
    sum = next;
  }
  builder.completes();
  if (paired) builder.send(rank_of(self - 1), output(0));
}

Schedule recursive_doubling_all_reduce(const GroupShape& shape) {
  ScheduleBuilder builder(1, 1);
  double_recursively(builder, ranks_from(Rank(0), shape.world_size), shape.rank.value, input(0));
  return std::move(builder).build();
}

}  // namespace ucxring
