// The binomial tree.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH.
// International Journal of High Performance Computing Applications 19(1), 2005, section 4.2.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// Broadcast in which the ranks that hold the vector double each round, the farthest subtree first. ⌈log₂ p⌉
/// rounds; the root sends ⌈log₂ p⌉ · n bytes. For small vectors.
[[nodiscard]] Schedule binomial_broadcast(const GroupShape& shape);

}  // namespace ucxring
