#include "transport/base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

#include "transport/base/error.hpp"

namespace ucxring::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) noexcept {
  switch (level) {
    case Level::trace:
      return spdlog::level::trace;
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

Level level_named(std::string_view name) {
  if (name == "trace") return Level::trace;
  if (name == "debug") return Level::debug;
  if (name == "info") return Level::info;
  if (name == "warning") return Level::warning;
  if (name == "error") return Level::error;
  if (name == "off") return Level::off;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("log level \"{}\"; allowed: trace, debug, info, warning, error, off", name));
}

/// Not in spdlog's registry, which an embedding program may use or shut down itself. Never destroyed, so that
/// threads may log during process exit.
spdlog::logger* make_logger(spdlog::level::level_enum level, const char* pattern) {
  auto* made = new spdlog::logger("ucxring", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  made->set_pattern(pattern);
  made->set_level(level);
  made->flush_on(spdlog::level::trace);
  return made;
}

spdlog::logger& logger() {
  static spdlog::logger* const instance = make_logger(spdlog::level::warn, "[ucxring] %l: %v");
  return *instance;
}

/// Of lines without a level.
spdlog::logger& announcer() {
  static spdlog::logger* const instance = make_logger(spdlog::level::trace, "[ucxring] %v");
  return *instance;
}

}  // namespace

std::shared_ptr<const void> configure(std::string_view level, int rank, int world_size) {
  static std::mutex mutex;
  static std::weak_ptr<const void> named;
  const std::lock_guard lock(mutex);
  logger().set_level(to_spdlog(level_named(level)));
  if (!named.expired()) return nullptr;
  const auto naming = std::make_shared<int>(rank);
  named = naming;
  logger().set_pattern(fmt::format("[ucxring rank {}/{}] %l: %v", rank, world_size));
  announcer().set_pattern(fmt::format("[ucxring rank {}/{}] %v", rank, world_size));
  return naming;
}

bool enabled(Level level) noexcept { return level != Level::off && logger().should_log(to_spdlog(level)); }

void write(Level level, const std::string& line) { logger().log(to_spdlog(level), line); }

void announce(std::string_view subsystem, const std::string& line) {
  announcer().info("{}: {}", subsystem, line);
}

}  // namespace ucxring::log
