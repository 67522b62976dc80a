// Everyone straight to the root, or the root straight to everyone: one round of latency, all of it at the
// root.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// Everyone sends its vector to the root, which sums them in rank order. 1 round; the root receives (p−1) · n
/// bytes. For tiny vectors, and inside a host, where the root combines all of them in one pass.
[[nodiscard]] Schedule direct_reduce(const GroupShape& shape);

/// Two-shot reduce: a direct reduce-scatter of p chunks, whose sums go to the root. 2 rounds; each rank sends
/// n bytes, the root receives 2(p−1)/p · n. All ranks share the additions. For medium and large vectors,
/// above all inside a host.
[[nodiscard]] Schedule direct_two_shot_reduce(const GroupShape& shape);

/// Everyone sends its contribution to the root. 1 round; the root receives (p−1)/p · n bytes of the gathered
/// n, the least possible. Ranks need to know nothing of the contributions of others.
[[nodiscard]] Schedule direct_gather(const GroupShape& shape);

/// The root sends chunk q to rank q. 1 round; the root sends (p−1)/p · n bytes of the scattered n, the least
/// possible. Ranks need to know nothing of the chunks of others.
[[nodiscard]] Schedule direct_scatter(const GroupShape& shape);

}  // namespace ucxring
