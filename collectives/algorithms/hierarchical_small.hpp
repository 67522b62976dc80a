// All-reduce over hosts with the fewest rounds on the network.
//
// N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting hierarchy in
// parallel computer networks to optimize collective operation performance. International Parallel and
// Distributed Processing Symposium, 2000.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// The first rank of each host adds up the vectors of its host, exchanges sums with those of the other hosts
/// by recursive doubling, and gives the result to its host. With h hosts log₂ h rounds on the network (at
/// most ⌊log₂ h⌋ + 2 between powers of two) and two inside the hosts; whole vectors in each. For small
/// vectors.
[[nodiscard]] Schedule hierarchical_small_all_reduce(const GroupShape& shape);

}  // namespace ucxring
