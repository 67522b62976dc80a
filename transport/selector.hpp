// Chooses the transport for a group.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "transport/base/config.hpp"
#include "transport/store.hpp"
#include "transport/transport.hpp"

namespace ucxring {

/// Joins the group through `store` over the transport that `config.transport` names ("auto": the best one
/// that connects these ranks). Collective over all ranks. `master_host` is a host that every rank can reach;
/// it picks the network device when none is configured, and may be empty. Throws `Error`: timeout names the
/// ranks that did not come, unsupported a transport that this build lacks.
[[nodiscard]] std::unique_ptr<Transport> connect(const std::shared_ptr<Store>& store, Rank rank,
                                                 int world_size, std::chrono::milliseconds timeout,
                                                 const Config& config, const std::string& master_host);

}  // namespace ucxring
