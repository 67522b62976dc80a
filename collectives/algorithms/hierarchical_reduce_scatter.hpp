// Reduce-scatter over hosts: each host sends one partial sum to each rank of the others.
//
// T. Kielmann, R. F. H. Hofman, H. E. Bal, A. Plaat, R. A. F. Bhoedjang: MagPIe: MPI's collective
// communication operations for clustered wide area systems. Principles and Practice of Parallel Programming,
// 1999.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// The hierarchical all-gather backwards: in each host one rank adds up what its host contributes to a rank
/// elsewhere, and sends it the sum. Everyone adds up the sums of all hosts in their order. 2 rounds. A host
/// of m ranks sends (p−m)/p · n bytes of the scattered n over the network, the least possible.
[[nodiscard]] Schedule hierarchical_reduce_scatter(const GroupShape& shape);

}  // namespace ucxring
