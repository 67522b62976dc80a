#include "transport/ucx/advice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "transport/ucx/devices.hpp"

namespace ucxring::ucx {
namespace {

/// The variable of UCX where it is set, else ours.
std::string winner(const std::string& theirs, const std::string& ours, const std::string& value,
                   const IsSet& is_set) {
  if (!is_set(theirs)) return fmt::format("{}={}", ours, value);
  return fmt::format("{}={}, which is set and wins over {}", theirs,
                     environment_variable(theirs).value_or(""), ours);
}

/// What UCX prints about `context`.
std::string printed(ucp_context_h context) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const stream = open_memstream(&text, &bytes);
  if (stream == nullptr) return {};
  ucp_context_print_info(context, stream);
  std::fclose(stream);
  std::string result(text, bytes);
  std::free(text);
  return result;
}

/// A context of everything there is; null when UCX does not make one.
UcpContext make_whole_context() {
  ucp_config_t* raw = nullptr;
  if (ucp_config_read(nullptr, nullptr, &raw) != UCS_OK) return {};
  const UcpConfig settings(raw);
  static_cast<void>(ucp_config_modify(raw, "TLS", "all"));
  static_cast<void>(ucp_config_modify(raw, "NET_DEVICES", "all"));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  if (ucp_init(&params, raw, &context) != UCS_OK) return {};
  return UcpContext(context);
}

}  // namespace

std::string describe_choice(const Config& config, const std::string& master_host, const IsSet& is_set) {
  const std::string transports = winner("UCX_TLS", "UCXRING_UCX_TLS", config.ucx_tls, is_set);
  if (is_set("UCX_NET_DEVICES") || !config.net_devices.empty()) {
    return fmt::format("{}; {}", transports,
                       winner("UCX_NET_DEVICES", "UCXRING_NET_DEVICES", config.net_devices, is_set));
  }
  return fmt::format("{}; network interface {}", transports, route_device(master_host));
}

std::string describe_port_range(const Config& config, const IsSet& is_set) {
  if (config.port_range.empty() && !is_set("UCX_TCP_PORT_RANGE")) return {};
  return winner("UCX_TCP_PORT_RANGE", "UCXRING_PORT_RANGE", config.port_range, is_set);
}

std::string available_transports() {
  const UcpContext context = make_whole_context();
  if (!context) return "unknown";
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  std::istringstream lines(printed(context.get()));
  // As in "#  resource 1  :  md 1  dev 1  flags -- tcp/eth0".
  for (std::string line; std::getline(lines, line);) {
    const auto name = line.rfind(' ') + 1;
    const auto slash = line.find('/', name);
    if (line.find(" resource ") == std::string::npos || slash == std::string::npos) continue;
    const std::string transport = line.substr(name, slash - name);
    if (found.empty() || found.back().first != transport) found.push_back({transport, {}});
    const std::string device = line.substr(slash + 1);
    if (device != "memory") found.back().second.push_back(device);
  }
  std::vector<std::string> shown;
  for (const auto& [transport, devices] : found) {
    shown.push_back(devices.empty() ? transport
                                    : fmt::format("{} ({})", transport, fmt::join(devices, ", ")));
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

}  // namespace ucxring::ucx
