// Network interfaces of this host, and the one to use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ucxring::ucx {

/// An interface that is up and has an address.
struct NetworkDevice {
  std::string name;
  bool loopback = false;
  bool bridge = false;  ///< made by a container runtime or a hypervisor: leads to no other host
};

/// The interfaces of this host that are up, in the kernel's order, each once.
[[nodiscard]] std::vector<NetworkDevice> list_devices();

/// The interface from which packets to `host` leave; loopback only when `host` itself says so ("localhost",
/// 127.0.0.1, ::1). A host name that resolves to 127.0.1.1, an unknown or an empty one give the interface of
/// the default route, else the first that leads out of this host, else loopback. Sends nothing.
[[nodiscard]] std::string route_device(const std::string& host);

/// Throws `Error` (invalid_argument), listing what exists, when the comma list names an interface that does
/// not.
void require_devices(std::string_view list);

}  // namespace ucxring::ucx
