#include "collectives/registry.hpp"

#include <array>

#include "collectives/algorithms/binomial.hpp"
#include "collectives/algorithms/binomial_gather.hpp"
#include "collectives/algorithms/bruck.hpp"
#include "collectives/algorithms/chain.hpp"
#include "collectives/algorithms/direct.hpp"
#include "collectives/algorithms/direct_rooted.hpp"
#include "collectives/algorithms/dissemination.hpp"
#include "collectives/algorithms/hierarchical_all_gather.hpp"
#include "collectives/algorithms/hierarchical_all_reduce.hpp"
#include "collectives/algorithms/hierarchical_barrier.hpp"
#include "collectives/algorithms/hierarchical_broadcast.hpp"
#include "collectives/algorithms/hierarchical_reduce.hpp"
#include "collectives/algorithms/hierarchical_reduce_scatter.hpp"
#include "collectives/algorithms/hierarchical_small.hpp"
#include "collectives/algorithms/host_map.hpp"
#include "collectives/algorithms/pairwise.hpp"
#include "collectives/algorithms/recursive_doubling.hpp"
#include "collectives/algorithms/ring.hpp"
#include "collectives/algorithms/tree.hpp"

namespace ucxring {
namespace {

constexpr bool kFixedOrder = true;
constexpr bool kAnyOrder = false;
constexpr bool kUneven = true;

bool any_size(const GroupShape& shape) { return shape.world_size >= 2; }

/// For algorithms in which several ranks compute the same sum: inside a host it is rounded once, elsewhere at
/// every step, so all must do one or the other to get the same bits.
bool one_kind_of_link(const GroupShape& shape) {
  const int hosts = shape.host_count();
  return shape.world_size >= 2 && (hosts == 1 || hosts == shape.world_size);
}

constexpr std::array kAlgorithms{
    Algorithm{Collective::all_reduce, "hierarchical_small",
              "sums of hosts are exchanged by recursive doubling", hierarchical_small_all_reduce,
              has_hierarchy},
    Algorithm{Collective::all_reduce, "hierarchical",
              "reduce-scatter in hosts, rings over hosts, all-gather in hosts", hierarchical_all_reduce,
              has_hierarchy},
    Algorithm{Collective::all_reduce, "direct", "everyone sends everything to everyone", direct_all_reduce,
              one_kind_of_link, kFixedOrder},
    Algorithm{Collective::all_reduce, "recursive_doubling", "partners at distance 1, 2, 4, … exchange sums",
              recursive_doubling_all_reduce, one_kind_of_link, kFixedOrder},
    Algorithm{Collective::all_reduce, "direct_two_shot", "direct reduce-scatter, then direct all-gather",
              direct_two_shot_all_reduce, any_size, kFixedOrder},
    Algorithm{Collective::all_reduce, "ring", "reduce-scatter, then all-gather around a ring",
              ring_all_reduce, any_size},
    Algorithm{Collective::all_reduce, "tree", "two binary trees, each for one half of the vector",
              tree_all_reduce, any_size},
    Algorithm{Collective::broadcast, "hierarchical_small",
              "a binomial tree over hosts, then to everyone in the host", hierarchical_small_broadcast,
              has_hierarchy},
    Algorithm{Collective::broadcast, "hierarchical", "a chain over hosts, then to everyone in the host",
              hierarchical_broadcast, has_hierarchy},
    Algorithm{Collective::broadcast, "direct", "the root sends to everyone", direct_broadcast, any_size},
    Algorithm{Collective::broadcast, "binomial", "the ranks that hold the vector double each round",
              binomial_broadcast, any_size},
    Algorithm{Collective::broadcast, "chain", "a pipeline from each rank to the next", chain_broadcast,
              any_size},
    Algorithm{Collective::all_gather, "hierarchical", "contributions go to each host once",
              hierarchical_all_gather, has_hierarchy, kAnyOrder, kUneven},
    Algorithm{Collective::all_gather, "direct", "everyone sends to everyone", direct_all_gather, any_size,
              kAnyOrder, kUneven},
    Algorithm{Collective::all_gather, "ring", "contributions travel around a ring", ring_all_gather, any_size,
              kAnyOrder, kUneven},
    Algorithm{Collective::reduce_scatter, "hierarchical", "each host sends one sum to each rank elsewhere",
              hierarchical_reduce_scatter, has_hierarchy, kAnyOrder, kUneven},
    Algorithm{Collective::reduce_scatter, "direct", "everyone sends chunk q to rank q", direct_reduce_scatter,
              any_size, kFixedOrder, kUneven},
    Algorithm{Collective::reduce_scatter, "ring", "partial sums travel around a ring", ring_reduce_scatter,
              any_size, kAnyOrder, kUneven},
    Algorithm{Collective::reduce, "hierarchical_small", "sums of hosts along a binomial tree over hosts",
              hierarchical_small_reduce, has_hierarchy},
    Algorithm{Collective::reduce, "hierarchical", "sums of hosts along a chain over hosts",
              hierarchical_reduce, has_hierarchy},
    Algorithm{Collective::reduce, "direct", "everyone sends to the root", direct_reduce, any_size,
              kFixedOrder},
    Algorithm{Collective::reduce, "binomial", "the ranks that hold sums halve each round", binomial_reduce,
              any_size},
    Algorithm{Collective::reduce, "direct_two_shot", "direct reduce-scatter, then everyone sends to the root",
              direct_two_shot_reduce, any_size, kFixedOrder},
    Algorithm{Collective::reduce, "chain", "a pipeline from each rank to the one before", chain_reduce,
              any_size},
    Algorithm{Collective::gather, "binomial", "chunks of subtrees go together", binomial_gather, any_size},
    Algorithm{Collective::gather, "direct", "everyone sends to the root", direct_gather, any_size, kAnyOrder,
              kUneven},
    Algorithm{Collective::scatter, "binomial", "chunks of subtrees go together", binomial_scatter, any_size},
    Algorithm{Collective::scatter, "direct", "the root sends to everyone", direct_scatter, any_size,
              kAnyOrder, kUneven},
    Algorithm{Collective::all_to_all, "bruck", "chunks for many ranks go together at distance 1, 2, 4, …",
              bruck_all_to_all, any_size},
    Algorithm{Collective::all_to_all, "direct", "everyone sends chunk q to rank q", direct_all_to_all,
              any_size, kAnyOrder, kUneven},
    Algorithm{Collective::all_to_all, "pairwise", "partners at distance 1, 2, 3, … exchange chunks",
              pairwise_all_to_all, any_size, kAnyOrder, kUneven},
    Algorithm{Collective::barrier, "hierarchical", "signals inside hosts, dissemination over hosts",
              hierarchical_barrier, has_hierarchy},
    Algorithm{Collective::barrier, "direct", "everyone signals everyone", direct_barrier, any_size},
    Algorithm{Collective::barrier, "dissemination", "signals at distance 1, 2, 4, …", dissemination_barrier,
              any_size},
};

}  // namespace

std::span<const Algorithm> algorithms() noexcept { return kAlgorithms; }

const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

}  // namespace ucxring
