// Reduce over hosts: each host combines its ranks' vectors before anything goes over the network.
//
// T. Kielmann, R. F. H. Hofman, H. E. Bal, A. Plaat, R. A. F. Bhoedjang: MagPIe: MPI's collective
// communication operations for clustered wide area systems. Principles and Practice of Parallel Programming,
// 1999.
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// One rank of each host sums the vectors of its host; a chain carries the sums from host to host to the
/// root. h rounds; a host sends n bytes, the least possible. For large vectors.
[[nodiscard]] Schedule hierarchical_reduce(const GroupShape& shape);

/// The same with a binomial tree over the hosts. 1 + ⌈log₂ h⌉ rounds; the root's host receives ⌈log₂ h⌉ · n
/// bytes. For small vectors.
[[nodiscard]] Schedule hierarchical_small_reduce(const GroupShape& shape);

}  // namespace ucxring
