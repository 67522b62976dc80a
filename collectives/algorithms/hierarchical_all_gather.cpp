#include "collectives/algorithms/hierarchical_all_gather.hpp"

#include <utility>

#include "collectives/algorithms/host_map.hpp"
#include "collectives/algorithms/steps.hpp"

namespace ucxring {

Schedule hierarchical_all_gather(const GroupShape& shape) {
  const HostMap map(shape);
  const auto host = map.ranks(map.own());
  ScheduleBuilder builder(1, shape.world_size);
  for (int distance = 1; distance < map.hosts(); ++distance) {
    builder.send(map.carrier(shape.rank, map.own() + distance), input(0));
  }
  exchange(builder, host, shape.rank, input(0));

  // What comes from outside: first what this rank carries, so that nobody waits for it.
  const std::vector<Rank> owners = map.elsewhere(-1);
  for (const Rank owner : owners) {
    if (map.carrier(owner, map.own()) != shape.rank) continue;
    builder.receive(owner, output(owner.value));
    publish(builder, host, shape.rank, output(owner.value));
  }
  for (const Rank owner : owners) {
    const Rank carrier = map.carrier(owner, map.own());
    if (carrier != shape.rank) builder.receive(carrier, output(owner.value));
  }
  builder.copy(input(0), output(shape.rank.value));
  return std::move(builder).build();
}

}  // namespace ucxring
