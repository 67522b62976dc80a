// Which ranks form a host.
#pragma once

#include <vector>

#include "transport/shm/card.hpp"

namespace ucxring::shm {

/// Number of the host of each rank: greedily, in rank order, a rank joins the first host all of whose ranks
/// share memory with it, else it starts the next one. `met[r]` lists whom rank r says it shares memory with;
/// a pair shares when both say so. The same on all ranks, since all know all lists.
[[nodiscard]] std::vector<int> find_hosts(const std::vector<Contacts>& met);

}  // namespace ucxring::shm
