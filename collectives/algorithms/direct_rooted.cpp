#include "collectives/algorithms/direct_rooted.hpp"

#include <utility>

#include "collectives/algorithms/steps.hpp"

namespace ucxring {

Schedule direct_reduce(const GroupShape& shape) {
  const bool is_root = shape.rank == shape.root;
  ScheduleBuilder builder(1, is_root ? 1 : 0);
  if (is_root) {
    fold(builder, ranks_from(Rank(0), shape.world_size), shape.rank, input(0), output(0));
    builder.completes();
  } else {
    builder.send(shape.root, input(0));
  }
  return std::move(builder).build();
}

Schedule direct_two_shot_reduce(const GroupShape& shape) {
  const int p = shape.world_size;
  const bool is_root = shape.rank == shape.root;
  const ChunkRef own = input(shape.rank.value);
  ScheduleBuilder builder(p, is_root ? p : 0);
  scatter_input(builder, shape);
  const ChunkRef sum = is_root ? output(shape.rank.value) : builder.scratch(own);
  fold(builder, ranks_from(Rank(0), p), shape.rank, own, sum);
  builder.completes();
  if (is_root) {
    receive_output(builder, shape);
  } else {
    builder.send(shape.root, sum);
  }
  return std::move(builder).build();
}

Schedule direct_gather(const GroupShape& shape) {
  const bool is_root = shape.rank == shape.root;
  ScheduleBuilder builder(1, is_root ? shape.world_size : 0);
  if (!is_root) {
    builder.send(shape.root, input(0));
    return std::move(builder).build();
  }
  builder.copy(input(0), output(shape.rank.value));
  receive_output(builder, shape);
  return std::move(builder).build();
}

Schedule direct_scatter(const GroupShape& shape) {
  const bool is_root = shape.rank == shape.root;
  ScheduleBuilder builder(is_root ? shape.world_size : 0, 1);
  if (!is_root) {
    builder.receive(shape.root, output(0));
    return std::move(builder).build();
  }
  scatter_input(builder, shape);
  builder.copy(input(shape.rank.value), output(0));
  return std::move(builder).build();
}

}  // namespace ucxring
