#include "collectives/algorithms/hierarchical_reduce.hpp"

#include <utility>

#include "collectives/algorithms/binomial.hpp"
#include "collectives/algorithms/chain.hpp"
#include "collectives/algorithms/host_map.hpp"
#include "collectives/algorithms/steps.hpp"

namespace ucxring {
namespace {

/// `collect` carries the sums of hosts to the root.
template <typename Collect>
Schedule reduce_over_hosts(const GroupShape& shape, Collect collect) {
  const HostMap map(shape);
  const std::vector<Rank> heads = map.heads(shape.root);
  const int place = map.wrap(map.own() - map.host_of(shape.root));
  const Rank head = heads[static_cast<std::size_t>(place)];
  const auto host = map.ranks(map.own());

  ScheduleBuilder builder(1, shape.rank == shape.root ? 1 : 0);
  if (shape.rank != head) {
    builder.send(head, input(0));
    return std::move(builder).build();
  }
  ChunkRef sum = input(0);
  if (host.size() > 1) {
    sum = builder.scratch(input(0));
    fold(builder, host, head, input(0), sum);
  }
  collect(builder, heads, place, sum);
  return std::move(builder).build();
}

}  // namespace

Schedule hierarchical_reduce(const GroupShape& shape) {
  return reduce_over_hosts(shape, collect_along_chain);
}

Schedule hierarchical_small_reduce(const GroupShape& shape) {
  return reduce_over_hosts(shape, collect_by_binomial_tree);
}

}  // namespace ucxring
