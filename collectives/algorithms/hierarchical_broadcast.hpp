// Broadcast over hosts: the vector goes to each host once.
//
// T. Kielmann, R. F. H. Hofman, H. E. Bal, A. Plaat, R. A. F. Bhoedjang: MagPIe: MPI's collective
// communication operations for clustered wide area systems. Principles and Practice of Parallel Programming,
// 1999.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// The root and the first rank of each other host pass the vector along a chain, and publish it in their
/// hosts. h rounds for h hosts; no host sends, or receives, more than n bytes over the network. For large
/// vectors.
[[nodiscard]] Schedule hierarchical_broadcast(const GroupShape& shape);

/// The same with a binomial tree between the hosts: ⌈log₂ h⌉ + 1 rounds; the root's host sends ⌈log₂ h⌉ · n
/// bytes over the network. For small vectors.
[[nodiscard]] Schedule hierarchical_small_broadcast(const GroupShape& shape);

}  // namespace ucxring
