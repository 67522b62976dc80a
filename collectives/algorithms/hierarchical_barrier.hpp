// The barrier over hosts.
//
// T. Kielmann, R. F. H. Hofman, H. E. Bal, A. Plaat, R. A. F. Bhoedjang: MagPIe: MPI's collective
// communication operations for clustered wide area systems. Principles and Practice of Parallel Programming,
// 1999.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// Everyone signals the first rank of its host; these hear of each other by dissemination, and signal back.
/// ⌈log₂ h⌉ rounds on the network for h hosts, and two inside the hosts. No bytes.
[[nodiscard]] Schedule hierarchical_barrier(const GroupShape& shape);

}  // namespace ucxring
