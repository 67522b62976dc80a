#include "collectives/algorithms/direct.hpp"

#include <utility>

namespace ucxring {
namespace {

/// `result` = the sum in rank order of `own` and of one message from every other rank. Partial sums stay in
/// scratch, so that nothing waits for the sends of `own` before the last step, also when `result` is the same
/// memory.
void sum_in_rank_order(ScheduleBuilder& builder, const GroupShape& shape, ChunkRef own, ChunkRef result) {
  const ChunkRef partial = builder.scratch(own);
  ChunkRef sum = own;
  if (shape.rank.value > 0) {
    sum = partial;
    builder.receive(Rank(0), sum);
  }
  for (int rank = 1; rank < shape.world_size; ++rank) {
    const ChunkRef target = rank == shape.world_size - 1 ? result : partial;
    if (rank == shape.rank.value) {
      builder.reduce(sum, own, target);
    } else {
      builder.receive_reduce(Rank(rank), sum, target);
    }
    sum = target;
  }
  builder.completes();
}

/// Everyone sends `own` to everyone else, and receives chunk q of the output from rank q. Each rank starts
/// with its neighbour, so that no rank is everybody's first.
void exchange(ScheduleBuilder& builder, const GroupShape& shape, ChunkRef own) {
  for (int distance = 1; distance < shape.world_size; ++distance) {
    builder.send(shape.neighbor(distance), own);
  }
  for (int distance = 1; distance < shape.world_size; ++distance) {
    const Rank peer = shape.neighbor(-distance);
    builder.receive(peer, output(peer.value));
  }
}

void scatter_input(ScheduleBuilder& builder, const GroupShape& shape) {
  for (int distance = 1; distance < shape.world_size; ++distance) {
    const Rank peer = shape.neighbor(distance);
    builder.send(peer, input(peer.value));
  }
}

}  // namespace

Schedule direct_all_reduce(const GroupShape& shape) {
  ScheduleBuilder builder(1, 1);
  for (int distance = 1; distance < shape.world_size; ++distance) {
    builder.send(shape.neighbor(distance), input(0));
  }
  sum_in_rank_order(builder, shape, input(0), output(0));
  return std::move(builder).build();
}

Schedule direct_two_shot_all_reduce(const GroupShape& shape) {
  const int rank = shape.rank.value;
  ScheduleBuilder builder(shape.world_size, shape.world_size);
  scatter_input(builder, shape);
  sum_in_rank_order(builder, shape, input(rank), output(rank));
  exchange(builder, shape, output(rank));
  return std::move(builder).build();
}

Schedule direct_all_gather(const GroupShape& shape) {
  ScheduleBuilder builder(1, shape.world_size);
  exchange(builder, shape, input(0));
  builder.copy(input(0), output(shape.rank.value));
  return std::move(builder).build();
}

Schedule direct_reduce_scatter(const GroupShape& shape) {
  ScheduleBuilder builder(shape.world_size, 1);
  scatter_input(builder, shape);
  sum_in_rank_order(builder, shape, input(shape.rank.value), output(0));
  return std::move(builder).build();
}

}  // namespace ucxring
