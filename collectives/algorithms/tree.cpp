#include "collectives/algorithms/tree.hpp"

#include <bit>
#include <optional>
#include <utility>
#include <vector>

namespace ucxring {
namespace {

/// One rank's place in one tree.
struct Node {
  std::optional<Rank> parent;
  std::vector<Rank> children;
};

/// Places of a binary tree in which odd ones are leaves: a place whose lowest bit is b has children at ± b/2,
/// and place 0 is the root above the largest power of two.
Node node_at(int place, int world_size) {
  Node node;
  const int lowest_bit =
      place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(world_size))) : place & -place;
  if (place > 0) {
    const int upper = (place ^ lowest_bit) | (2 * lowest_bit);
    node.parent = Rank(upper < world_size ? upper : place ^ lowest_bit);
    if (lowest_bit > 1) node.children.emplace_back(place - lowest_bit / 2);
  }
  // Where the tree is cut off, the nearest place that exists takes over.
  int step = lowest_bit / 2;
  while (step > 0 && place + step >= world_size) step /= 2;
  if (step > 0) node.children.emplace_back(place + step);
  return node;
}

/// The first tree numbers ranks as they are; the second one mirrors or shifts them, so that leaves become
/// inner.
Node node_of(Rank rank, int tree, int p) {
  const auto map = [&](int value, int shift) {
    if (tree == 0) return value;
    return p % 2 == 0 ? p - 1 - value : (value + shift + p) % p;
  };
  Node node = node_at(map(rank.value, -1), p);
  if (node.parent) node.parent->value = map(node.parent->value, 1);
  for (Rank& child : node.children) child.value = map(child.value, 1);
  return node;
}

void reduce_up(ScheduleBuilder& builder, const Node& node, int chunk) {
  ChunkRef sum = input(chunk);
  for (const Rank child : node.children) {
    builder.receive_reduce(child, sum, output(chunk));
    sum = output(chunk);
  }
  if (node.parent) {
    builder.send(*node.parent, sum);
  } else {
    builder.completes();
  }
}

void broadcast_down(ScheduleBuilder& builder, const Node& node, int chunk) {
  if (node.parent) builder.receive(*node.parent, output(chunk));
  for (const Rank child : node.children) builder.send(child, output(chunk));
}

}  // namespace

Schedule tree_all_reduce(const GroupShape& shape) {
  const Node nodes[] = {node_of(shape.rank, 0, shape.world_size), node_of(shape.rank, 1, shape.world_size)};
  // A leaf waits for nothing on the way up, and nobody waits for it on the way down.
  const int leaf = nodes[0].children.empty() ? 0 : 1;
  const int inner = 1 - leaf;
  ScheduleBuilder builder(2, 2);
  reduce_up(builder, nodes[leaf], leaf);
  reduce_up(builder, nodes[inner], inner);
  broadcast_down(builder, nodes[inner], inner);
  broadcast_down(builder, nodes[leaf], leaf);
  return std::move(builder).build();
}

}  // namespace ucxring
