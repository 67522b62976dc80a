#include "transport/shm/memory_left.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "transport/shm/cgroup.hpp"

namespace ucxring::shm {
namespace {

namespace fs = std::filesystem;

/// What one group's limit leaves; page cache that nobody uses gives way.
std::optional<std::int64_t> left_in_group(const fs::path& folder) {
  auto limit = read_number(folder / "memory.max");
  auto used = read_number(folder / "memory.current");
  auto cache = read_number(folder / "memory.stat", "inactive_file");
  if (!limit) {
    limit = read_number(folder / "memory.limit_in_bytes");
    used = read_number(folder / "memory.usage_in_bytes");
    cache = read_number(folder / "memory.stat", "total_inactive_file");
  }
  if (!limit || !used) return std::nullopt;
  return std::max<std::int64_t>(0, *limit - *used + cache.value_or(0));
}

}  // namespace

MemoryLeft memory_left(const fs::path& root) {
  MemoryLeft left{std::numeric_limits<std::size_t>::max(), "memory of this machine"};
  if (const auto kibibytes = read_number(root / "proc/meminfo", "MemAvailable:")) {
    left.bytes = static_cast<std::size_t>(*kibibytes) * 1024;
  }
  for (const fs::path& folder : cgroup_folders("memory", root)) {
    const auto bytes = left_in_group(folder);
    if (!bytes || static_cast<std::size_t>(*bytes) >= left.bytes) continue;
    left = {static_cast<std::size_t>(*bytes),
            fmt::format("memory limit of control group {}", folder.string())};
  }
  return left;
}

std::size_t physical_memory() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return static_cast<std::size_t>(std::max(pages, 0L)) * static_cast<std::size_t>(page);
}

}  // namespace ucxring::shm
