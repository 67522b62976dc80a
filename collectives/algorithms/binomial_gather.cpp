#include "collectives/algorithms/binomial_gather.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "collectives/algorithms/steps.hpp"

namespace ucxring {
namespace {

/// One rank's part of the tree, whose places count from the root around the ring of ranks. The subtree of a
/// place holds the places from it on.
struct Subtree {
  std::vector<Rank> ranks;  // by place
  int place;
  int lowest_bit;  // of the place: the distance to its parent
  int size;

  explicit Subtree(const GroupShape& shape)
      : ranks(ranks_from(shape.root, shape.world_size)),
        place(shape.wrap(shape.rank.value - shape.root.value)) {
    const auto bits = static_cast<unsigned>(place);
    lowest_bit =
        place == 0 ? static_cast<int>(std::bit_ceil(ranks.size())) : static_cast<int>(bits & (~bits + 1));
    size = size_at(0, lowest_bit);
  }
  [[nodiscard]] int group_size() const noexcept { return static_cast<int>(ranks.size()); }
  [[nodiscard]] Rank at(int distance) const {
    const int there = place + distance;
    return ranks[static_cast<std::size_t>(there)];
  }
  [[nodiscard]] Rank parent() const { return at(-lowest_bit); }
  /// Places of the subtree `distance` further on, which has at most `most`.
  [[nodiscard]] int size_at(int distance, int most) const noexcept {
    return std::min(most, group_size() - place - distance);
  }
  /// Places in the largest subtree below the root: no message holds more chunks.
  [[nodiscard]] int largest_message() const noexcept {
    const int half = static_cast<int>(std::bit_ceil(ranks.size())) / 2;
    return std::max({half / 2, std::min(half, group_size() - half), 1});
  }
};

}  // namespace

Schedule binomial_gather(const GroupShape& shape) {
  const Subtree tree(shape);
  const bool is_root = tree.place == 0;
  ScheduleBuilder builder(1, is_root ? shape.world_size : 0, tree.largest_message());
  if (!is_root && tree.size == 1) return std::move(builder.send(tree.parent(), input(0))).build();

  ChunkRef all{};
  if (is_root) {
    builder.copy(input(0), output(shape.rank.value));
  } else {
    all = builder.bundle(input(0), tree.size);
    builder.copy(input(0), all.part(0));
  }
  for (int bit = 1; bit < tree.size; bit *= 2) {
    const int chunks = tree.size_at(bit, bit);
    if (!is_root) {
      builder.receive(tree.at(bit), all.part(bit, chunks));
    } else if (chunks == 1) {
      builder.receive(tree.at(bit), output(tree.at(bit).value));
    } else {
      const ChunkRef arrived = builder.bundle(input(0), chunks);
      builder.receive(tree.at(bit), arrived);
      for (int i = 0; i < chunks; ++i) builder.copy(arrived.part(i), output(tree.at(bit + i).value));
    }
  }
  if (!is_root) builder.send(tree.parent(), all);
  return std::move(builder).build();
}

Schedule binomial_scatter(const GroupShape& shape) {
  const Subtree tree(shape);
  const bool is_root = tree.place == 0;
  ScheduleBuilder builder(is_root ? shape.world_size : 0, 1, tree.largest_message());
  if (!is_root && tree.size == 1) return std::move(builder.receive(tree.parent(), output(0))).build();

  ChunkRef all{};
  if (!is_root) {
    all = builder.bundle(output(0), tree.size);
    builder.receive(tree.parent(), all);
  }
  for (int bit = tree.lowest_bit / 2; bit > 0; bit /= 2) {
    if (bit >= tree.size) continue;
    const int chunks = tree.size_at(bit, bit);
    if (!is_root) {
      builder.send(tree.at(bit), all.part(bit, chunks));
    } else if (chunks == 1) {
      builder.send(tree.at(bit), input(tree.at(bit).value));
    } else {
      const ChunkRef leaving = builder.bundle(output(0), chunks);
      for (int i = 0; i < chunks; ++i) builder.copy(input(tree.at(bit + i).value), leaving.part(i));
      builder.send(tree.at(bit), leaving);
    }
  }
  builder.copy(is_root ? input(shape.rank.value) : all.part(0), output(0));
  return std::move(builder).build();
}

}  // namespace ucxring
