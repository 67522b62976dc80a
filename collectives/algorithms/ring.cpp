#include "collectives/algorithms/ring.hpp"

#include <utility>

namespace ucxring {

Schedule ring_all_reduce(const GroupShape& shape) {
  const int p = shape.world_size;
  const int rank = shape.rank.value;
  const Rank next = shape.neighbor(1);
  const Rank previous = shape.neighbor(-1);
  ScheduleBuilder builder(p, p);

  // Reduce-scatter: after round k this rank holds the sum of k+2 contributions to chunk rank−k−1.
  for (int round = 0; round < p - 1; ++round) {
    const int leaving = shape.wrap(rank - round);
    const int arriving = shape.wrap(rank - round - 1);
    builder.send(next, round == 0 ? input(leaving) : output(leaving));
    builder.receive_reduce(previous, input(arriving), output(arriving));
  }
  builder.completes();

  // All-gather: finished chunks follow one another around.
  for (int round = 0; round < p - 1; ++round) {
    builder.send(next, output(shape.wrap(rank + 1 - round)));
    builder.receive(previous, output(shape.wrap(rank - round)));
  }
  return std::move(builder).build();
}

Schedule ring_all_gather(const GroupShape& shape) {
  const int p = shape.world_size;
  const int rank = shape.rank.value;
  ScheduleBuilder builder(1, p);
  for (int round = 0; round < p - 1; ++round) {
    builder.send(shape.neighbor(1), round == 0 ? input(0) : output(shape.wrap(rank - round)));
    builder.receive(shape.neighbor(-1), output(shape.wrap(rank - round - 1)));
  }
  builder.copy(input(0), output(rank));
  return std::move(builder).build();
}

Schedule ring_reduce_scatter(const GroupShape& shape) {
  const int p = shape.world_size;
  const int rank = shape.rank.value;
  ScheduleBuilder builder(p, 1);
  ChunkRef partial = input(shape.wrap(rank - 1));
  for (int round = 0; round < p - 1; ++round) {
    const ChunkRef own = input(shape.wrap(rank - round - 2));
    builder.send(shape.neighbor(1), partial);
    partial = round == p - 2 ? output(0) : builder.scratch(own);
    builder.receive_reduce(shape.neighbor(-1), own, partial);
  }
  builder.completes();
  return std::move(builder).build();
}

}  // namespace ucxring
