// Gather and scatter over the binomial tree, in which an inner rank carries the chunks of its subtree in one
// message.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH.
// International Journal of High Performance Computing Applications 19(1), 2005, sections 3 and 4.2.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// Each rank passes the chunks of its subtree on once it has them all, the smallest subtrees first. ⌈log₂ p⌉
/// rounds; the root receives (p−1)/p · n bytes of the gathered n in ⌈log₂ p⌉ messages. For short chunks of
/// equal sizes among many ranks.
[[nodiscard]] Schedule binomial_gather(const GroupShape& shape);

/// The way back: the root sends each subtree its chunks, the largest one first. ⌈log₂ p⌉ rounds; the root
/// sends (p−1)/p · n bytes of the scattered n in ⌈log₂ p⌉ messages. For short chunks of equal sizes among
/// many ranks.
[[nodiscard]] Schedule binomial_scatter(const GroupShape& shape);

}  // namespace ucxring
