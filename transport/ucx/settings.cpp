#include "transport/ucx/settings.hpp"

#include <fmt/format.h>
#include <ucs/config/global_opts.h>

#include <array>
#include <limits>
#include <string_view>

#include "transport/base/log.hpp"
#include "transport/ucx/advice.hpp"
#include "transport/ucx/devices.hpp"
#include "transport/ucx/signals.hpp"
#include "transport/ucx/status.hpp"

namespace ucxring::ucx {
namespace {

constexpr std::size_t kTcpFragment = std::size_t{256} << 10;
/// Room for UCX's and our header beside the fragment, so that one fragment is one TCP-transport message.
constexpr std::size_t kHeaderRoom = 1024;
constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

bool is_tcp_only(const Config& config) { return config.ucx_tls == "tcp" || config.ucx_tls == "tcp,self"; }

/// Process-wide options of UCX's base library. It has read the environment when it was loaded, so they are
/// set through its API; variables of the user win.
void set_global_options(const IsSet& is_set) {
  struct Option {
    const char* name;
    const char* value;
  };
  // A lost peer is reported through Listener, not by lines on standard error.
  static constexpr std::array<Option, 2> kOptions = {
      Option{"LOG_LEVEL", "fatal"},
      Option{"WARN_UNUSED_ENV_VARS", "n"},
  };
  for (const Option& option : kOptions) {
    if (is_set(std::string("UCX_") + option.name)) continue;
    const ucs_status_t status = ucs_global_opts_set_value(option.name, option.value);
    if (status != UCS_OK) log::debug("UCX does not take {}: {}", option.name, ucs_status_string(status));
  }
}

class ConfigWriter {
 public:
  ConfigWriter(ucp_config_t* config, const IsSet& is_set) : config_(config), is_set_(is_set) {}

  void set(const std::string& name, const std::string& value) const {
    if (is_set_("UCX_" + name)) return;
    const ucs_status_t status = ucp_config_modify(config_, name.c_str(), value.c_str());
    if (status == UCS_ERR_NO_ELEM) {
      log::debug("this UCX has no setting {}", name);
    } else {
      check(status, fmt::format("UCX setting {}={}", name, value));
    }
  }

 private:
  ucp_config_t* config_;
  const IsSet& is_set_;
};

void set_tcp_options(const ConfigWriter& writer) {
  const std::string segment = std::to_string(kTcpFragment + kHeaderRoom);
  writer.set("TCP_TX_SEG_SIZE", segment);
  writer.set("TCP_RX_SEG_SIZE", segment);
  writer.set("TCP_MAX_NUM_EPS", "inf");
}

void set_devices(const ConfigWriter& writer, const Config& config, const std::string& master_host) {
  if (!config.net_devices.empty()) {
    if (is_tcp_only(config)) require_devices(config.net_devices);
    writer.set("NET_DEVICES", config.net_devices);
  } else if (is_tcp_only(config)) {
    writer.set("NET_DEVICES", route_device(master_host));
  }
}

UcpConfig make_config(const Config& config, const std::string& master_host, const IsSet& is_set) {
  ucp_config_t* raw = nullptr;
  check(ucp_config_read(nullptr, nullptr, &raw), "reading the UCX configuration");
  UcpConfig handle(raw);
  const ConfigWriter writer(raw, is_set);
  if (config.ucx_tls != "default") writer.set("TLS", config.ucx_tls);
  set_devices(writer, config, master_host);
  set_tcp_options(writer);
  if (!config.port_range.empty()) writer.set("TCP_PORT_RANGE", config.port_range);
  return handle;
}

}  // namespace

Protocol choose_protocol(const Config& config) {
  if (is_tcp_only(config)) return {kTcpFragment, true, kNever};
  // Elsewhere UCX knows the hardware: it picks eager or rendezvous by size.
  return {kNever, false, kNever};
}

UcpContext make_ucp_context(const Config& config, const std::string& master_host, const IsSet& is_set) {
  set_global_options(is_set);
  if (!is_set("UCX_HANDLE_ERRORS") && !is_set("UCX_DEBUG_SIGNO")) give_back_signals();
  const UcpConfig settings = make_config(config, master_host, is_set);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  params.name = "ucxring";
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&params, settings.get(), &context);
  if (status != UCS_OK) {
    check(status, fmt::format("starting UCX with {} (it offers {} here)",
                              describe_choice(config, master_host, is_set), available_transports()));
  }
  return UcpContext(context);
}

}  // namespace ucxring::ucx
