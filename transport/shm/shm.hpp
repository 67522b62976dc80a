// Shared memory: ranks of one host.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "transport/base/config.hpp"
#include "transport/store.hpp"
#include "transport/transport.hpp"

namespace ucxring::shm {

/// A context of its own, for tests. Throws `Error` (transport) when the system has no descriptors left.
[[nodiscard]] std::shared_ptr<Context> make_context();

/// The context that all groups of this process share; made on first use, lives as long as a group on it.
[[nodiscard]] std::shared_ptr<Context> process_context();

/// What joining a group gives.
struct Joined {
  std::unique_ptr<Transport> transport;
  std::string reason;      ///< why some ranks share no memory with this one, for a log line; empty: all do
  bool avoidable = false;  ///< some of those run on this very machine
};

/// Joins the group through `store`. Collective over all ranks, also over those that turn out to live on other
/// hosts: `Transport::hosts()` then tells who is reached, and endpoints to other ranks must not be asked for.
/// Throws `Error`: timeout names the ranks that did not come. A rank that has no memory to share is alone on
/// its host; that is no error but a reason.
[[nodiscard]] Joined join(std::shared_ptr<Context> context, const std::shared_ptr<Store>& store, Rank rank,
                          int world_size, std::chrono::milliseconds timeout, const Config& config);

}  // namespace ucxring::shm
