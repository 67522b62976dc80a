#include "transport/ucx/devices.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "transport/base/descriptor.hpp"
#include "transport/base/error.hpp"
#include "transport/base/unique_handle.hpp"

namespace ucxring::ucx {
namespace {

using InterfaceList = UniqueHandle<ifaddrs*, &freeifaddrs>;
using AddressList = UniqueHandle<addrinfo*, &freeaddrinfo>;

InterfaceList read_interfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    throw Error(ErrorCode::transport,
                fmt::format("cannot list network interfaces: {}", std::strerror(errno)));
  }
  return InterfaceList(first);
}

bool is_up_with_address(const ifaddrs& entry) {
  return entry.ifa_addr != nullptr && (entry.ifa_flags & IFF_UP) != 0 &&
         (entry.ifa_addr->sa_family == AF_INET || entry.ifa_addr->sa_family == AF_INET6);
}

bool is_bridge(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kPrefixes = {"docker", "br-",     "virbr",
                                                                "cni",    "flannel", "lxc"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](auto prefix) { return name.starts_with(prefix); });
}

bool same_address(const sockaddr& left, const sockaddr& right) {
  if (left.sa_family != right.sa_family) return false;
  if (left.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(left).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(right).sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(left).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(right).sin6_addr, sizeof(in6_addr)) == 0;
}

/// Name of the interface that owns the source address of packets to `target`; empty when there is no route.
std::string device_towards(const sockaddr* target, socklen_t size) {
  const Descriptor socket(::socket(target->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || connect(socket.get(), target, size) != 0) return {};
  sockaddr_storage source{};
  socklen_t source_size = sizeof(source);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&source), &source_size) != 0) return {};
  const InterfaceList interfaces = read_interfaces();
  for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
    if (is_up_with_address(*entry) && same_address(*entry->ifa_addr, reinterpret_cast<sockaddr&>(source))) {
      return entry->ifa_name;
    }
  }
  // 127.0.1.1 is an address of no interface, but a source address all the same.
  return {};
}

std::string device_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return {};
  const AddressList addresses(found);
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    if (std::string name = device_towards(entry->ai_addr, entry->ai_addrlen); !name.empty()) return name;
  }
  return {};
}

bool is_loopback(std::string_view name) {
  const auto devices = list_devices();
  return std::any_of(devices.begin(), devices.end(),
                     [&](const auto& d) { return d.name == name && d.loopback; });
}

/// The interface of the default route: 198.51.100.0/24 is reserved for documentation and on nobody's link.
std::string default_device() {
  if (std::string name = device_towards("198.51.100.1"); !name.empty() && !is_loopback(name)) return name;
  const auto devices = list_devices();
  const auto outside =
      std::find_if(devices.begin(), devices.end(), [](const auto& d) { return !d.loopback && !d.bridge; });
  if (outside != devices.end()) return outside->name;
  return devices.empty() ? "lo" : devices.front().name;
}

}  // namespace

std::vector<NetworkDevice> list_devices() {
  std::vector<NetworkDevice> devices;
  const InterfaceList interfaces = read_interfaces();
  for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
    if (!is_up_with_address(*entry)) continue;
    const std::string name = entry->ifa_name;
    if (std::any_of(devices.begin(), devices.end(), [&](const auto& d) { return d.name == name; })) continue;
    devices.push_back({name, (entry->ifa_flags & IFF_LOOPBACK) != 0, is_bridge(name)});
  }
  return devices;
}

std::string route_device(const std::string& host) {
  if (host.empty()) return default_device();
  std::string name = device_towards(host);
  const bool says_loopback = host == "localhost" || host == "::1" || host.starts_with("127.");
  if (name.empty() || (is_loopback(name) && !says_loopback)) return default_device();
  return name;
}

void require_devices(std::string_view list) {
  const auto devices = list_devices();
  std::vector<std::string> names;
  for (const auto& device : devices) names.push_back(device.name);
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, comma);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("UCXRING_NET_DEVICES names \"{}\", which is no network interface of this host that "
                      "is up; those are: {}",
                      name, fmt::join(names, ", ")));
    }
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

}  // namespace ucxring::ucx
