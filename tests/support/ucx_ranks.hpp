// Ranks over UCX inside one test process.
#pragma once

#include <memory>
#include <vector>

#include "transport/store.hpp"
#include "transport/transport.hpp"

namespace ucxring::testing {

/// All ranks of a group over TCP loopback, each on a context of its own, joined through `store`.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_ucx_ranks(int world_size,
                                                                     const std::shared_ptr<Store>& store);

/// The same on contexts that the caller keeps, one for each rank.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_ucx_ranks(
    const std::vector<std::shared_ptr<Context>>& contexts, const std::shared_ptr<Store>& store);

}  // namespace ucxring::testing
