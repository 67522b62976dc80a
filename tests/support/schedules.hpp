// Schedules of all ranks, for tests.
#pragma once

#include <span>
#include <vector>

#include "collectives/registry.hpp"
#include "collectives/validate.hpp"

namespace ucxring::testing {

/// What `algorithm` builds for each rank of a group; `hosts` as in `GroupShape`.
inline std::vector<Schedule> schedules_of(const Algorithm& algorithm, int world_size, Rank root = Rank(0),
                                          std::span<const int> hosts = {}) {
  std::vector<Schedule> schedules;
  schedules.reserve(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    schedules.push_back(algorithm.build({Rank(rank), world_size, root, hosts}));
  }
  return schedules;
}

/// What `algorithm` is right for.
inline Parts parts_of(const Algorithm& algorithm) { return algorithm.uneven ? Parts::uneven : Parts::even; }

}  // namespace ucxring::testing
