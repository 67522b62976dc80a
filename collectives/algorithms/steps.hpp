// Steps that several algorithms share: what one rank does with a list of ranks.
#pragma once

#include <span>
#include <vector>

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// All ranks of the group around the ring, beginning with `first`.
[[nodiscard]] std::vector<Rank> ranks_from(Rank first, int world_size);

/// Sends `chunk` to all `ranks` but `self`, one of them. Each begins with the one after it, so that no rank
/// is everybody's first. Where the ranks share memory, the transport writes the chunk once for all of them.
void publish(ScheduleBuilder& builder, std::span<const Rank> ranks, Rank self, ChunkRef chunk);

/// Sends chunk q of the input to each other rank q of the group, in the same order.
void scatter_input(ScheduleBuilder& builder, const GroupShape& shape);

/// Receives chunk q of the output from each other rank q of the group, from the rank before this one first:
/// it is the one that begins with this rank.
void receive_output(ScheduleBuilder& builder, const GroupShape& shape);

/// Publishes `own`, and receives chunk q of the output from each other rank q.
void exchange(ScheduleBuilder& builder, std::span<const Rank> ranks, Rank self, ChunkRef own);

/// Leaves in `result` the sum of `own` and of one chunk that each other of the `ranks` (two or more, with
/// `self`) sends, added in their order. Intermediate sums lie in scratch: `own` is read at its turn, also
/// when `result` is the same memory. Where the ranks share memory, all chunks are combined in one pass.
void fold(ScheduleBuilder& builder, std::span<const Rank> ranks, Rank self, ChunkRef own, ChunkRef result);

/// Adds to the chunk `own` what each of the `children` sends, in their order, and returns where the sum is:
/// `result` if there is any child, `own` without one. A signal in place of `result` stands for scratch.
ChunkRef add_up(ScheduleBuilder& builder, std::span<const Rank> children, ChunkRef own, ChunkRef result);

}  // namespace ucxring
