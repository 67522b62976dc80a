// Bruck's all-to-all: few messages, each of which carries chunks for many ranks.
//
// J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all communications
// in multiport message-passing systems. IEEE Transactions on Parallel and Distributed Systems 8(11), 1997.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// All-to-all in which round k takes all chunks 2^k ranks further whose way has that bit. ⌈log₂ p⌉ rounds and
/// messages; each carries at most half of the n bytes that a rank has for all, so it sends about
/// ⌈log₂ p⌉ · n/2. For short chunks of equal sizes among many ranks.
[[nodiscard]] Schedule bruck_all_to_all(const GroupShape& shape);

}  // namespace ucxring
