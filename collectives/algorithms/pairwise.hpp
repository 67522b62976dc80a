// Pairwise exchange: in each round every rank sends to one other and receives from one other.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH.
// International Journal of High Performance Computing Applications 19(1), 2005, section 4.5.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// All-to-all in which round k sends to the rank k places further on and receives from the one k places
/// before, so that no rank is anybody else's target at the same time. p−1 rounds, (p−1)/p · n bytes of the n
/// that each rank has for all, the least possible.
[[nodiscard]] Schedule pairwise_all_to_all(const GroupShape& shape);

}  // namespace ucxring
