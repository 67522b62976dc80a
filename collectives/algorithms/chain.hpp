// The chain: a ring that is not closed. With many lanes in flight it is a pipeline.
//
// R. A. van de Geijn: On global combine operations. Journal of Parallel and Distributed Computing 22(2), 1994
// (pipelined broadcast along a ring).
#pragma once

#include <span>

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// Broadcast from each rank to the next. p−1 rounds; each rank sends n bytes, the least possible, and all
/// links work at once when the vector is cut into many lanes. For large vectors.
[[nodiscard]] Schedule chain_broadcast(const GroupShape& shape);

/// The same among `ranks` for `ranks[self]`: from the input of the first to the outputs of the others.
void spread_along_chain(ScheduleBuilder& builder, std::span<const Rank> ranks, int self);

/// Reduce from each rank to the one before it, the other way. p−1 rounds; each rank sends n bytes, the least
/// possible, and all links work at once when the vector is cut into many lanes. For large vectors.
[[nodiscard]] Schedule chain_reduce(const GroupShape& shape);

/// The same among `ranks` (two or more) for `ranks[self]`: its `own` chunk, in the input or scratch, is added
/// to those of the ranks after it; the sum of all is left in the only output chunk of the first.
void collect_along_chain(ScheduleBuilder& builder, std::span<const Rank> ranks, int self, ChunkRef own);

}  // namespace ucxring
