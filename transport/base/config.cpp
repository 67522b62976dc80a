#include "transport/base/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "transport/base/error.hpp"
#include "transport/base/parse.hpp"

namespace ucxring {
namespace {

constexpr std::string_view kPrefix = "UCXRING_";
constexpr std::size_t kSmallestSlice = std::size_t{4} << 10;
constexpr std::size_t kLargestSlice = std::size_t{64} << 20;
constexpr std::size_t kSmallestArena = std::size_t{2} << 20;
constexpr std::size_t kLargestArena = std::size_t{1} << 30;
constexpr std::size_t kLongestDirectory = 60;
constexpr std::uint64_t kMostLanes = 256;
constexpr std::array<std::string_view, 1> kSubsystems{"TUNING"};
constexpr std::uint64_t kLongestSpin = 1'000'000;

/// Stops parsing; `apply_setting` adds the variable, its value and what is allowed.
[[noreturn]] void refuse(std::string_view why) { throw Error(ErrorCode::invalid_argument, std::string(why)); }

template <typename T>
T required(std::optional<T> value, std::string_view otherwise) {
  if (!value) refuse(otherwise);
  return *value;
}

std::uint64_t integer_up_to(std::string_view text, std::uint64_t most) {
  const auto value = required(parse_integer(text), "not a whole number");
  if (value > most) refuse("too large");
  return value;
}

std::string choice(std::string_view text, std::initializer_list<std::string_view> allowed) {
  std::string word = to_lower(text);
  if (std::find(allowed.begin(), allowed.end(), word) == allowed.end()) refuse("not one of the choices");
  return word;
}

std::size_t slice_bytes(std::string_view text) {
  const auto bytes = required(parse_bytes(text), "not a number of bytes");
  if (bytes != 0 && (bytes < kSmallestSlice || bytes > kLargestSlice)) refuse("out of range");
  return bytes;
}

/// A Unix socket with a name of 40 bytes has to fit into 107.
std::string directory(std::string_view text) {
  if (text.empty()) return {};
  if (!text.starts_with('/')) refuse("not an absolute path");
  if (text.size() > kLongestDirectory) refuse("too long");
  return std::string(text);
}

std::size_t shm_bytes(std::string_view text) {
  const auto bytes = required(parse_bytes(text), "not a number of bytes");
  if (bytes < kSmallestArena || bytes > kLargestArena || bytes % 64 != 0) refuse("out of range");
  return bytes;
}

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const auto end = std::min(list.find(','), list.size());
    words.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

/// Comma-separated names without blanks; `text` may be empty as a whole.
std::string name_list(std::string_view text) {
  if (text.find_first_of(" \t\n") != std::string_view::npos) refuse("blanks in the list");
  const bool empty_name =
      text.starts_with(',') || text.ends_with(',') || text.find(",,") != std::string_view::npos;
  if (empty_name) refuse("an empty name in the list");
  return std::string(text);
}

/// Names of `kSubsystems` in any case; returned in upper case.
std::string subsystem_list(std::string_view text) {
  std::string list = to_upper(name_list(text));
  for (const std::string_view word : words_of(list)) {
    if (std::find(kSubsystems.begin(), kSubsystems.end(), word) == kSubsystems.end()) {
      refuse(fmt::format("no subsystem \"{}\"", word));
    }
  }
  return list;
}

std::string port_range(std::string_view text) {
  if (text.empty()) return {};
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) refuse("no dash between two ports");
  const auto first = required(parse_integer(text.substr(0, dash)), "the first port is no number");
  const auto last = required(parse_integer(text.substr(dash + 1)), "the last port is no number");
  if (first == 0 || last > 65535) refuse("a port out of range");
  if (first > last) refuse("the first port is above the last");
  return std::string(text);
}

using Text = std::string_view;

constexpr std::array<Setting, 16> kSettings{{
    {"ALGORITHM", "text", "", "[collective:][^]name[,name…][;…], ^ excludes; empty: all",
     "Restricts the algorithms to choose from, e.g. all_reduce:ring,tree;broadcast:^chain; grammar of "
     "NCCL_ALGO.",
     [](Config& c, Text t) { c.algorithm = std::string(t); }, [](const Config& c) { return c.algorithm; }},
    {"SLICE_BYTES", "bytes", "0", "0 (chosen by size) or 4Ki … 64Mi",
     "Unit in which a chunk is pipelined; the same on all ranks.",
     [](Config& c, Text t) { c.slice_bytes = slice_bytes(t); },
     [](const Config& c) { return show_bytes(c.slice_bytes); }},
    {"LANES", "integer", "0", "0 (chosen) … 256", "Slices of one operation in flight at once.",
     [](Config& c, Text t) { c.lanes = static_cast<int>(integer_up_to(t, kMostLanes)); },
     [](const Config& c) { return std::to_string(c.lanes); }},
    {"SPIN_US", "microseconds", "50", "0 … 1000000",
     "Longest busy wait before a waiting thread gives up its core and sleeps.",
     [](Config& c, Text t) {
       c.spin = std::chrono::microseconds(static_cast<std::int64_t>(integer_up_to(t, kLongestSpin)));
     },
     [](const Config& c) { return std::to_string(c.spin.count()); }},
    {"PROGRESS_THREAD", "bool", "1", "1/0, true/false, yes/no, on/off",
     "Whether a background thread makes progress while no thread waits for an operation.",
     [](Config& c, Text t) { c.progress_thread = required(parse_bool(t), "neither true nor false"); },
     [](const Config& c) { return std::string(c.progress_thread ? "1" : "0"); }},
    {"TRANSPORT", "choice", "auto", "auto, shm, ucx",
     "The transport between ranks; auto takes shared memory inside a host and UCX elsewhere.",
     [](Config& c, Text t) {
       c.transport = choice(t, {"auto", "shm", "ucx"});
     },
     [](const Config& c) { return c.transport; }},
    {"SHM_BYTES", "bytes", "4Mi", "2Mi … 1Gi, a multiple of 64",
     "Shared memory that a rank holds in each group for large messages.",
     [](Config& c, Text t) { c.shm_bytes = shm_bytes(t); },
     [](const Config& c) { return show_bytes(c.shm_bytes); }},
    {"SHM_DIR", "text", "", "absolute path of at most 60 bytes; empty: none",
     "Directory that all containers of a machine see, for finding shared memory across network namespaces.",
     [](Config& c, Text t) { c.shm_dir = directory(t); }, [](const Config& c) { return c.shm_dir; }},
    {"NET_DEVICES", "text", "", "comma-separated interface names; empty: the one that routes to the master",
     "Network interfaces that connections may use.", [](Config& c, Text t) { c.net_devices = name_list(t); },
     [](const Config& c) { return c.net_devices; }},
    {"UCX_TLS", "text", "tcp,self", "comma-separated UCX transports, or default to leave the choice to UCX",
     "UCX transports to use, as in UCX_TLS.",
     [](Config& c, Text t) {
       if (t.empty()) refuse("empty");
       c.ucx_tls = name_list(t);
     },
     [](const Config& c) { return c.ucx_tls; }},
    {"PORT_RANGE", "text", "", "first-last within 1 … 65535; empty: any free port",
     "Ports that listening sockets may take, for firewalls.",
     [](Config& c, Text t) { c.port_range = port_range(t); }, [](const Config& c) { return c.port_range; }},
    {"PROBE", "bool", "1", "1/0, true/false, yes/no, on/off",
     "Whether each group measures its links for some milliseconds when it is made, to choose algorithms by.",
     [](Config& c, Text t) { c.probe = required(parse_bool(t), "neither true nor false"); },
     [](const Config& c) { return std::string(c.probe ? "1" : "0"); }},
    {"DETERMINISTIC", "bool", "0", "1/0, true/false, yes/no, on/off",
     "Whether reductions combine in an order that depends neither on sizes nor on links nor on hosts.",
     [](Config& c, Text t) { c.deterministic = required(parse_bool(t), "neither true nor false"); },
     [](const Config& c) { return std::string(c.deterministic ? "1" : "0"); }},
    {"DDP_REPORT", "bool", "0", "1/0, true/false, yes/no, on/off",
     "Whether rank 0 prints the report of each DistributedDataParallel when the program ends.",
     [](Config& c, Text t) { c.ddp_report = required(parse_bool(t), "neither true nor false"); },
     [](const Config& c) { return std::string(c.ddp_report ? "1" : "0"); }},
    {"DEBUG", "text", "", "comma-separated subsystems: TUNING",
     "Subsystems that explain what they do on standard error: how algorithms are chosen.",
     [](Config& c, Text t) { c.debug = subsystem_list(t); }, [](const Config& c) { return c.debug; }},
    {"LOG_LEVEL", "choice", "warning", "trace, debug, info, warning, error, off",
     "Least severity that is written to standard error.",
     [](Config& c, Text t) {
       c.log_level = choice(t, {"trace", "debug", "info", "warning", "error", "off"});
     },
     [](const Config& c) { return c.log_level; }},
}};

std::string variable(const Setting& setting) { return fmt::format("{}{}", kPrefix, setting.name); }

void apply_setting(const Setting& setting, Config& config, std::string_view value) {
  try {
    setting.parse(config, value);
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}=\"{}\": {}; allowed: {}", variable(setting),
                                                         value, error.status().message(), setting.allowed));
  }
}

[[noreturn]] void refuse_unknown(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Setting& setting : kSettings) known.push_back(setting.name);
  const std::string upper = to_upper(name);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("unknown setting {0}{1}; did you mean {0}{2}? Known are {3}", kPrefix, upper,
                          nearest_name(upper, known), fmt::join(known, ", ")));
}

const Setting* find_setting(std::string_view name) {
  const std::string upper = to_upper(name);
  const auto found =
      std::find_if(kSettings.begin(), kSettings.end(), [&](const Setting& s) { return s.name == upper; });
  return found == kSettings.end() ? nullptr : found;
}

void refuse_unknown_variables() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view name(*entry);
    name = name.substr(0, name.find('='));
    if (!name.starts_with(kPrefix)) continue;
    name.remove_prefix(kPrefix.size());
    const Setting* const setting = find_setting(name);
    // Variables are case-sensitive: a lower-case one would be ignored in silence.
    if (setting == nullptr || setting->name != name) refuse_unknown(name);
  }
}

}  // namespace

bool Config::debugs(std::string_view subsystem) const {
  const auto words = words_of(debug);
  return std::find(words.begin(), words.end(), subsystem) != words.end();
}

std::span<const Setting> settings() noexcept { return kSettings; }

Config parse_config(const VariableReader& reader) {
  Config config;
  for (const Setting& setting : kSettings) {
    if (const auto value = reader(variable(setting))) apply_setting(setting, config, *value);
  }
  return config;
}

Config config_from_environment() {
  refuse_unknown_variables();
  return parse_config(environment_variable);
}

std::optional<std::string> environment_variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

bool environment_has(const std::string& name) { return environment_variable(name).has_value(); }

void set_config(Config& config, std::string_view name, std::string_view value) {
  const Setting* const setting = find_setting(name);
  if (setting == nullptr) refuse_unknown(name);
  apply_setting(*setting, config, value);
}

}  // namespace ucxring
