// What to say about settings when UCX cannot do what it is told.
#pragma once

#include <string>

#include "transport/ucx/settings.hpp"

namespace ucxring::ucx {

/// The settings that choose UCX's transports and devices, as they count: "UCXRING_UCX_TLS=tcp,self, network
/// interface eth0", and which variables of UCX win over ours.
[[nodiscard]] std::string describe_choice(const Config& config, const std::string& master_host,
                                          const IsSet& is_set);

/// The setting that bounds the ports of listening sockets, as it counts; empty when none does.
[[nodiscard]] std::string describe_port_range(const Config& config, const IsSet& is_set);

/// The transports that UCX has on this machine, with their network interfaces: "self, tcp (eth0, lo), sysv".
/// Asks UCX anew, whatever the settings are.
[[nodiscard]] std::string available_transports();

}  // namespace ucxring::ucx
