// All-gather over hosts: each contribution goes to each other host once.
//
// T. Kielmann, R. F. H. Hofman, H. E. Bal, A. Plaat, R. A. F. Bhoedjang: MagPIe: MPI's collective
// communication operations for clustered wide area systems. Principles and Practice of Parallel Programming,
// 1999.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// Everyone sends its contribution to one rank of each other host, its carrier there, who publishes it in
/// that host; inside a host everyone publishes its own. 2 rounds. A host of m ranks receives (p−m)/p · n
/// bytes of the gathered n over the network, the least possible.
[[nodiscard]] Schedule hierarchical_all_gather(const GroupShape& shape);

}  // namespace ucxring
