// The ring: bandwidth-optimal, every rank talks to its two neighbours only.
//
// P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations.
// Journal of Parallel and Distributed Computing 69(2), 2009.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// All-reduce of p chunks: a reduce-scatter once around the ring, then an all-gather once around. 2(p−1)
/// rounds; each rank sends, and receives, 2(p−1)/p · n bytes, the least possible. For large vectors.
[[nodiscard]] Schedule ring_all_reduce(const GroupShape& shape);

/// Each contribution travels once around. p−1 rounds, (p−1)/p · n bytes of the gathered n, the least
/// possible. For large vectors.
[[nodiscard]] Schedule ring_all_gather(const GroupShape& shape);

/// The chunk of rank c starts at rank c+1 and is reduced on its way around to c. p−1 rounds, (p−1)/p · n
/// bytes of the scattered n, the least possible; partial sums lie in p−2 scratch chunks, so the input stays
/// as it was. For large vectors.
[[nodiscard]] Schedule ring_reduce_scatter(const GroupShape& shape);

}  // namespace ucxring
