// All settings of ucxring: one table, one strict parser, one typed result.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ucxring {

/// Typed settings. Defaults are the documented ones; `parse_config` overrides them from `UCXRING_*`
/// variables.
struct Config {
  std::string algorithm;  ///< UCXRING_ALGORITHM, e.g. "all_reduce:ring,tree;broadcast:^chain"; empty: all
  std::size_t slice_bytes = 0;         ///< UCXRING_SLICE_BYTES, pipelining unit; 0: chosen by size
  int lanes = 0;                       ///< UCXRING_LANES, slices of one operation in flight; 0: chosen
  std::chrono::microseconds spin{50};  ///< UCXRING_SPIN_US, longest busy wait before a waiter sleeps
  bool progress_thread = true;         ///< UCXRING_PROGRESS_THREAD, off: progress only while somebody waits
  std::string transport = "auto";      ///< UCXRING_TRANSPORT: auto, shm, ucx
  std::size_t shm_bytes = std::size_t{4}
                          << 20;  ///< UCXRING_SHM_BYTES, arena for large messages of a rank and group
  std::string shm_dir;  ///< UCXRING_SHM_DIR, directory for sockets, for containers with networks of their own
  std::string net_devices;  ///< UCXRING_NET_DEVICES, comma list of interfaces; empty: the one that routes to
                            ///< the master
  std::string ucx_tls = "tcp,self";  ///< UCXRING_UCX_TLS, UCX transports to use; "default" leaves it to UCX
  std::string port_range;            ///< UCXRING_PORT_RANGE, "first-last" for listening sockets; empty: any
  bool probe = true;                 ///< UCXRING_PROBE, off: algorithms are chosen by assumed link speeds
  bool deterministic = false;  ///< UCXRING_DETERMINISTIC, on: the order of combination depends on no size
  bool ddp_report = false;  ///< UCXRING_DDP_REPORT, on: DistributedDataParallel reports when the program ends
  std::string debug;        ///< UCXRING_DEBUG, comma list of subsystems that explain themselves: TUNING
  std::string log_level = "warning";  ///< UCXRING_LOG_LEVEL: trace, debug, info, warning, error, off

  /// Whether `debug` lists `subsystem` (in upper case).
  [[nodiscard]] bool debugs(std::string_view subsystem) const;
};

/// One row of the table.
struct Setting {
  std::string_view name;  ///< without the prefix, upper case: "SLICE_BYTES"
  std::string_view type;  ///< "bytes", "integer", "microseconds", "bool", "choice", "text"
  std::string_view default_value;
  std::string_view allowed;                              ///< human-readable rule, e.g. "0 or 4Ki … 64Mi"
  std::string_view help;                                 ///< one sentence
  void (*parse)(Config& config, std::string_view text);  ///< throws Error(invalid_argument) on a bad value
  std::string (*show)(const Config& config);             ///< the value as text that `parse` accepts
};

/// The table, in documentation order.
[[nodiscard]] std::span<const Setting> settings() noexcept;

/// Looks a variable up by full name ("UCXRING_LANES"); nothing when it is unset.
using VariableReader = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads every setting. Throws `Error` (invalid_argument) that names the variable, the value and what is
/// allowed.
[[nodiscard]] Config parse_config(const VariableReader& reader);

/// `parse_config` on the process environment, also refusing unknown UCXRING_* names (with the nearest known
/// one).
[[nodiscard]] Config config_from_environment();

/// The variable of this full name in the process environment: the only way to it.
[[nodiscard]] std::optional<std::string> environment_variable(const std::string& name);
/// Whether the process environment has a variable of this full name, also an empty one.
[[nodiscard]] bool environment_has(const std::string& name);

/// Sets one setting by its table name (without prefix, any case). Throws as `parse_config`.
void set_config(Config& config, std::string_view name, std::string_view value);

}  // namespace ucxring
