// The chain: a ring that is not closed. With many lanes in flight it is a pipeline.
//
// R. A. van de Geijn: On global combine operations. Journal of Parallel and Distributed Computing 22(2), 1994
// (pipelined broadcast along a ring).
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// Broadcast from each rank to the next. p−1 rounds; each rank sends n bytes, the least possible, and all
/// links work at once when the vector is cut into many lanes. For large vectors.
[[nodiscard]] Schedule chain_broadcast(const GroupShape& shape);

}  // namespace ucxring
