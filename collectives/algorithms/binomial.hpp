// The binomial tree.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH.
// International Journal of High Performance Computing Applications 19(1), 2005, section 4.2.
#pragma once

#include <span>

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// Broadcast in which the ranks that hold the vector double each round, the farthest subtree first. ⌈log₂ p⌉
/// rounds; the root sends ⌈log₂ p⌉ · n bytes. For small vectors.
[[nodiscard]] Schedule binomial_broadcast(const GroupShape& shape);

/// The same among `ranks` for `ranks[self]`: from the input of the first to the outputs of the others.
void spread_by_binomial_tree(ScheduleBuilder& builder, std::span<const Rank> ranks, int self);

/// Reduce in which the ranks that hold sums halve each round, the nearest subtree first. ⌈log₂ p⌉ rounds; the
/// root receives ⌈log₂ p⌉ · n bytes. For small vectors. Each sum is one of consecutive ranks in their order,
/// counted from the root.
[[nodiscard]] Schedule binomial_reduce(const GroupShape& shape);

/// The same among `ranks` (two or more) for `ranks[self]`: its `own` chunk, in the input or scratch, is added
/// to those of its subtree; the sum of all is left in the only output chunk of the first.
void collect_by_binomial_tree(ScheduleBuilder& builder, std::span<const Rank> ranks, int self, ChunkRef own);

}  // namespace ucxring
