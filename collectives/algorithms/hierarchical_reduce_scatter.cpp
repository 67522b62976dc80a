#include "collectives/algorithms/hierarchical_reduce_scatter.hpp"

#include <utility>

#include "collectives/algorithms/host_map.hpp"
#include "collectives/algorithms/steps.hpp"

namespace ucxring {

Schedule hierarchical_reduce_scatter(const GroupShape& shape) {
  const HostMap map(shape);
  const auto host = map.ranks(map.own());
  const std::vector<Rank> targets = map.elsewhere(1);
  ScheduleBuilder builder(shape.world_size, 1);
  const auto sum_of_host = [&](ChunkRef own) {
    if (host.size() == 1) return own;
    const ChunkRef sum = builder.scratch(own);
    fold(builder, host, shape.rank, own, sum);
    return sum;
  };

  for (const Rank target : targets) {
    const Rank carrier = map.carrier(target, map.own());
    if (carrier != shape.rank) builder.send(carrier, input(target.value));
  }
  for (const Rank target : host) {
    if (target != shape.rank) builder.send(target, input(target.value));
  }
  for (const Rank target : targets) {
    if (map.carrier(target, map.own()) != shape.rank) continue;
    const ChunkRef sum = sum_of_host(input(target.value));
    builder.send(target, sum);
  }

  std::vector<Rank> carriers;
  for (int other = 0; other < map.hosts(); ++other) {
    carriers.push_back(other == map.own() ? shape.rank : map.carrier(shape.rank, other));
  }
  const ChunkRef own = sum_of_host(input(shape.rank.value));
  fold(builder, carriers, shape.rank, own, output(0));
  builder.completes();
  return std::move(builder).build();
}

}  // namespace ucxring
