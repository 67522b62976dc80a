// All pairs: one message between any two ranks, so one round of latency. Sums are taken in rank order.
//
// One-shot and two-shot as in E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective
// communication: theory, practice, and experience. Concurrency and Computation: Practice and Experience
// 19(13), 2007.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// One-shot all-reduce: everyone sends its input to everyone and sums all of them. 1 round, (p−1) · n bytes.
/// For tiny vectors among few ranks.
[[nodiscard]] Schedule direct_all_reduce(const GroupShape& shape);

/// Two-shot all-reduce: a direct reduce-scatter of p chunks, then a direct all-gather. 2 rounds, 2(p−1)/p · n
/// bytes. For small and medium vectors among few ranks.
[[nodiscard]] Schedule direct_two_shot_all_reduce(const GroupShape& shape);

/// The root sends the vector to everyone. 1 round; the root sends (p−1) · n bytes, which ranks that share
/// memory with it read where it wrote them once. For tiny vectors, and inside a host.
[[nodiscard]] Schedule direct_broadcast(const GroupShape& shape);

/// Everyone sends its contribution to everyone. 1 round, (p−1)/p · n bytes of the gathered n. For small
/// vectors.
[[nodiscard]] Schedule direct_all_gather(const GroupShape& shape);

/// Everyone sends chunk q to rank q. 1 round, (p−1)/p · n bytes of the scattered n. For small vectors.
[[nodiscard]] Schedule direct_reduce_scatter(const GroupShape& shape);

/// Everyone sends chunk q to rank q, all at once. 1 round, (p−1)/p · n bytes of the n that each rank has for
/// all, the least possible. For small vectors, and among few ranks.
[[nodiscard]] Schedule direct_all_to_all(const GroupShape& shape);

/// Everyone signals everyone. 1 round, p−1 signals from each rank. Inside a host.
[[nodiscard]] Schedule direct_barrier(const GroupShape& shape);

}  // namespace ucxring
