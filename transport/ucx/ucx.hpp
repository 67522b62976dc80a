// UCX between processes and hosts: Ethernet, InfiniBand, RoCE. The public face of the folder; includes no UCX
// header.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "transport/base/config.hpp"
#include "transport/store.hpp"
#include "transport/transport.hpp"

namespace ucxring::ucx {

/// A context of its own. `master_host` is a host all ranks can reach; it picks the network device when
/// `config.net_devices` is empty, and may be empty itself. Throws `Error`: invalid_argument for a device that
/// does not exist, listing those that do; else what UCX says.
[[nodiscard]] std::shared_ptr<Context> make_context(const Config& config,
                                                    const std::string& master_host = {});

/// The context that all groups of this process share; made by the first call, with its settings, and kept
/// while anybody holds it. Thread-safe.
[[nodiscard]] std::shared_ptr<Context> process_context(const Config& config,
                                                       const std::string& master_host = {});

/// Joins a group on `context`, which one of the above made. Collective over all ranks; blocks, but other
/// threads may drive `context` meanwhile. Throws `Error`: timeout names the ranks that have not joined,
/// mismatch one that expects another world size or speaks another protocol version, invalid_argument a
/// foreign context or a bad rank.
[[nodiscard]] std::unique_ptr<Transport> create(std::shared_ptr<Context> context,
                                                const std::shared_ptr<Store>& store, Rank rank,
                                                int world_size, std::chrono::milliseconds timeout);

/// Version of the UCX library that was loaded, e.g. "1.22.0".
[[nodiscard]] std::string library_version();

}  // namespace ucxring::ucx
