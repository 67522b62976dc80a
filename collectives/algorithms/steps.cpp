#include "collectives/algorithms/steps.hpp"

#include <algorithm>

namespace ucxring {
namespace {

/// `ranks` without `self`, beginning after it.
std::vector<Rank> others_after(std::span<const Rank> ranks, Rank self) {
  std::vector<Rank> others(ranks.begin(), ranks.end());
  std::rotate(others.begin(), std::find(others.begin(), others.end(), self), others.end());
  others.erase(others.begin());
  return others;
}

}  // namespace

std::vector<Rank> ranks_from(Rank first, int world_size) {
  std::vector<Rank> ranks;
  ranks.reserve(static_cast<std::size_t>(world_size));
  for (int i = 0; i < world_size; ++i) ranks.emplace_back((first.value + i) % world_size);
  return ranks;
}

void publish(ScheduleBuilder& builder, std::span<const Rank> ranks, Rank self, ChunkRef chunk) {
  for (const Rank peer : others_after(ranks, self)) builder.send(peer, chunk);
}

void scatter_input(ScheduleBuilder& builder, const GroupShape& shape) {
  for (int distance = 1; distance < shape.world_size; ++distance) {
    const Rank peer = shape.neighbor(distance);
    builder.send(peer, input(peer.value));
  }
}

void receive_output(ScheduleBuilder& builder, const GroupShape& shape) {
  for (int distance = 1; distance < shape.world_size; ++distance) {
    const Rank peer = shape.neighbor(-distance);
    builder.receive(peer, output(peer.value));
  }
}

void exchange(ScheduleBuilder& builder, std::span<const Rank> ranks, Rank self, ChunkRef own) {
  publish(builder, ranks, self, own);
  const std::vector<Rank> others = others_after(ranks, self);
  // Who began with this rank first: the one before it.
  for (auto peer = others.rbegin(); peer != others.rend(); ++peer)
    builder.receive(*peer, output(peer->value));
}

ChunkRef add_up(ScheduleBuilder& builder, std::span<const Rank> children, ChunkRef own, ChunkRef result) {
  if (children.empty()) return own;
  const bool needs_scratch = result == signal() || children.size() > 1;
  const ChunkRef partial = needs_scratch ? builder.scratch(own) : result;
  if (result == signal()) result = partial;
  ChunkRef sum = own;
  for (const Rank child : children) {
    const ChunkRef target = child == children.back() ? result : partial;
    builder.receive_reduce(child, sum, target);
    sum = target;
  }
  return sum;
}

void fold(ScheduleBuilder& builder, std::span<const Rank> ranks, Rank self, ChunkRef own, ChunkRef result) {
  const bool one_step = ranks.size() == 2 && ranks.front() == self;
  const ChunkRef partial = one_step ? result : builder.scratch(own);
  ChunkRef sum = own;
  if (ranks.front() != self) {
    sum = partial;
    builder.receive(ranks.front(), sum);
  }
  for (const Rank rank : ranks.subspan(1)) {
    const ChunkRef target = rank == ranks.back() ? result : partial;
    if (rank == self) {
      builder.reduce(sum, own, target);
    } else {
      builder.receive_reduce(rank, sum, target);
    }
    sum = target;
  }
}

}  // namespace ucxring
