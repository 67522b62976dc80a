#include "collectives/algorithms/hierarchical_barrier.hpp"

#include <utility>

#include "collectives/algorithms/dissemination.hpp"
#include "collectives/algorithms/host_map.hpp"
#include "collectives/algorithms/steps.hpp"

namespace ucxring {

Schedule hierarchical_barrier(const GroupShape& shape) {
  const HostMap map(shape);
  const auto host = map.ranks(map.own());
  const Rank leader = host.front();
  ScheduleBuilder builder(0, 0);
  if (shape.rank == leader) {
    for (const Rank peer : host.subspan(1)) builder.receive(peer, signal());
    disseminate(builder, map.leaders(), map.own());
    publish(builder, host, leader, signal());
  } else {
    builder.send(leader, signal()).receive(leader, signal());
  }
  return std::move(builder).build();
}

}  // namespace ucxring
