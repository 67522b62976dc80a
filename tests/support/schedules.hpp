// Schedules of all ranks, for tests.
#pragma once

#include <vector>

#include "collectives/registry.hpp"

namespace ucxring::testing {

/// What `algorithm` builds for each rank of a group.
inline std::vector<Schedule> schedules_of(const Algorithm& algorithm, int world_size, Rank root = Rank(0)) {
  std::vector<Schedule> schedules;
  schedules.reserve(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    schedules.push_back(algorithm.build({.rank = Rank(rank), .world_size = world_size, .root = root}));
  }
  return schedules;
}

}  // namespace ucxring::testing
