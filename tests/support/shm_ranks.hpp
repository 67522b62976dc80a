// Ranks over shared memory inside one test process.
#pragma once

#include <memory>
#include <vector>

#include "transport/transport.hpp"

namespace ucxring::testing {

/// All ranks of a group, each on a context of its own.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_shm_ranks(int world_size);

}  // namespace ucxring::testing
