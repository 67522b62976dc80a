// Recursive doubling: the fewest rounds, whole vectors in each of them.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH.
// International Journal of High Performance Computing Applications 19(1), 2005, section 4.4 (extra ranks as
// there).
#pragma once

#include <span>

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// In round k partners at distance 2^k exchange their sums, so log₂ p rounds and log₂ p · n bytes. When p
/// lies between two powers of two, the first ranks fold in pairs before and unfold after: two more rounds.
/// For small vectors.
///
/// The lower rank's sum is the left operand on both sides, so all ranks evaluate one and the same expression.
/// Sums go to scratch: two partners that overwrite what they are sending would wait for each other.
[[nodiscard]] Schedule recursive_doubling_all_reduce(const GroupShape& shape);

/// The same among `ranks` (at least two, all of them call it) for `ranks[self]`: its `own` chunk, in the
/// input or scratch, is added to those of the others in their order, and the sum is left in the only output
/// chunk.
void double_recursively(ScheduleBuilder& builder, std::span<const Rank> ranks, int self, ChunkRef own);

}  // namespace ucxring
