#include "collectives/algorithms/direct.hpp"

#include <utility>

#include "collectives/algorithms/steps.hpp"

namespace ucxring {
namespace {

void sum_in_rank_order(ScheduleBuilder& builder, const GroupShape& shape, ChunkRef own, ChunkRef result) {
  fold(builder, ranks_from(Rank(0), shape.world_size), shape.rank, own, result);
  builder.completes();
}

}  // namespace

Schedule direct_all_reduce(const GroupShape& shape) {
  ScheduleBuilder builder(1, 1);
  publish(builder, ranks_from(Rank(0), shape.world_size), shape.rank, input(0));
  sum_in_rank_order(builder, shape, input(0), output(0));
  return std::move(builder).build();
}

Schedule direct_two_shot_all_reduce(const GroupShape& shape) {
  const int rank = shape.rank.value;
  ScheduleBuilder builder(shape.world_size, shape.world_size);
  scatter_input(builder, shape);
  sum_in_rank_order(builder, shape, input(rank), output(rank));
  exchange(builder, ranks_from(Rank(0), shape.world_size), shape.rank, output(rank));
  return std::move(builder).build();
}

Schedule direct_broadcast(const GroupShape& shape) {
  const bool is_root = shape.rank == shape.root;
  ScheduleBuilder builder(is_root ? 1 : 0, 1);
  if (is_root) {
    publish(builder, ranks_from(Rank(0), shape.world_size), shape.rank, input(0));
    builder.copy(input(0), output(0));
  } else {
    builder.receive(shape.root, output(0));
  }
  return std::move(builder).build();
}

Schedule direct_all_gather(const GroupShape& shape) {
  ScheduleBuilder builder(1, shape.world_size);
  exchange(builder, ranks_from(Rank(0), shape.world_size), shape.rank, input(0));
  builder.copy(input(0), output(shape.rank.value));
  return std::move(builder).build();
}

Schedule direct_reduce_scatter(const GroupShape& shape) {
  ScheduleBuilder builder(shape.world_size, 1);
  scatter_input(builder, shape);
  sum_in_rank_order(builder, shape, input(shape.rank.value), output(0));
  return std::move(builder).build();
}

Schedule direct_all_to_all(const GroupShape& shape) {
  const int rank = shape.rank.value;
  ScheduleBuilder builder(shape.world_size, shape.world_size);
  scatter_input(builder, shape);
  builder.copy(input(rank), output(rank));
  receive_output(builder, shape);
  return std::move(builder).build();
}

Schedule direct_barrier(const GroupShape& shape) {
  ScheduleBuilder builder(0, 0);
  for (int distance = 1; distance < shape.world_size; ++distance) {
    builder.send(shape.neighbor(distance), signal());
  }
  for (int distance = 1; distance < shape.world_size; ++distance) {
    builder.receive(shape.neighbor(-distance), signal());
  }
  return std::move(builder).build();
}

}  // namespace ucxring
