#include "collectives/algorithms/hierarchical_broadcast.hpp"

#include <utility>

#include "collectives/algorithms/binomial.hpp"
#include "collectives/algorithms/chain.hpp"
#include "collectives/algorithms/host_map.hpp"
#include "collectives/algorithms/steps.hpp"

namespace ucxring {
namespace {

/// `spread` carries the vector from host to host.
template <typename Spread>
Schedule broadcast_over_hosts(const GroupShape& shape, Spread spread) {
  const HostMap map(shape);
  const std::vector<Rank> heads = map.heads(shape.root);
  const int place = map.wrap(map.own() - map.host_of(shape.root));
  const Rank head = heads[static_cast<std::size_t>(place)];
  const bool is_root = shape.rank == shape.root;

  ScheduleBuilder builder(is_root ? 1 : 0, 1);
  if (shape.rank == head) {
    spread(builder, heads, place);
    publish(builder, map.ranks(map.own()), head, is_root ? input(0) : output(0));
  } else {
    builder.receive(head, output(0));
  }
  if (is_root) builder.copy(input(0), output(0));
  return std::move(builder).build();
}

}  // namespace

Schedule hierarchical_broadcast(const GroupShape& shape) {
  return broadcast_over_hosts(shape, spread_along_chain);
}

Schedule hierarchical_small_broadcast(const GroupShape& shape) {
  return broadcast_over_hosts(shape, spread_by_binomial_tree);
}

}  // namespace ucxring
