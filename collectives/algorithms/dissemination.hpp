// The dissemination barrier.
//
// D. Hensgen, R. Finkel, U. Manber: Two algorithms for barrier synchronization. International Journal of
// Parallel Programming 17(1), 1988.
#pragma once

#include <span>

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// Barrier in which round k signals the rank 2^k further on, so that after ⌈log₂ p⌉ rounds everyone has
/// heard, through others, from everyone. No bytes.
[[nodiscard]] Schedule dissemination_barrier(const GroupShape& shape);

/// The same among `ranks` for `ranks[self]`.
void disseminate(ScheduleBuilder& builder, std::span<const Rank> ranks, int self);

}  // namespace ucxring
