#include "collectives/algorithms/hierarchical_small.hpp"

#include <utility>

#include "collectives/algorithms/host_map.hpp"
#include "collectives/algorithms/recursive_doubling.hpp"
#include "collectives/algorithms/steps.hpp"

namespace ucxring {

Schedule hierarchical_small_all_reduce(const GroupShape& shape) {
  const HostMap map(shape);
  const auto host = map.ranks(map.own());
  const Rank leader = host.front();
  ScheduleBuilder builder(1, 1);
  if (shape.rank != leader) {
    builder.send(leader, input(0)).receive(leader, output(0));
    return std::move(builder).build();
  }
  ChunkRef sum = input(0);
  if (host.size() > 1) {
    sum = builder.scratch(input(0));
    fold(builder, host, leader, input(0), sum);
  }
  double_recursively(builder, map.leaders(), map.own(), sum);
  publish(builder, host, leader, output(0));
  return std::move(builder).build();
}

}  // namespace ucxring
