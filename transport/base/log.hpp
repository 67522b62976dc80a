// Logging for all layers, over spdlog. Silent by default except for warnings a person should act on.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace ucxring::log {

enum class Level { trace, debug, info, warning, error, off };

/// Sets the level by its name in `Config::log_level` and the prefix "[ucxring rank 2/8]". The first caller,
/// in PyTorch the default group, gives the prefix for as long as it keeps what is returned: the ranks of
/// subgroups are not those that a user knows his processes by. Thread-safe.
[[nodiscard]] std::shared_ptr<const void> configure(std::string_view level, int rank, int world_size);

[[nodiscard]] bool enabled(Level level) noexcept;

/// Writes one line to standard error.
void write(Level level, const std::string& line);

/// Writes one line whatever the level: what a person asked for by `UCXRING_DEBUG`. Thread-safe.
void announce(std::string_view subsystem, const std::string& line);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warning)) write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::error)) write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ucxring::log
