#include "transport/shm/cgroup.hpp"

#include <fstream>
#include <string>

namespace ucxring::shm {
namespace {

namespace fs = std::filesystem;

bool lists(std::string_view controllers, std::string_view controller) {
  while (!controllers.empty()) {
    const auto comma = controllers.find(',');
    if (controllers.substr(0, comma) == controller) return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

void add_existing(std::vector<fs::path>& folders, const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) folders.push_back(folder);
}

/// `mount` + `path` and all folders above it down to `mount`. In a container `path` may be one that only the
/// host sees: then the mount itself is the container's group.
void add_upwards(std::vector<fs::path>& folders, const fs::path& mount, const fs::path& path) {
  for (fs::path group = path.relative_path(); !group.empty(); group = group.parent_path()) {
    add_existing(folders, mount / group);
  }
  add_existing(folders, mount);
}

}  // namespace

std::vector<fs::path> cgroup_folders(std::string_view controller, const fs::path& root) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::vector<fs::path> folders;
  std::ifstream file(root / "proc/self/cgroup");
  // Lines are "number:controllers:path"; version 2 has no controllers.
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const fs::path path = line.substr(second + 1);
    if (controllers.empty()) {
      add_upwards(folders, mounts, path);
    } else if (lists(controllers, controller)) {
      add_upwards(folders, mounts / controller, path);
    }
  }
  return folders;
}

std::optional<std::int64_t> read_number(const fs::path& file) {
  std::ifstream stream(file);
  std::int64_t number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

std::optional<std::int64_t> read_number(const fs::path& file, std::string_view key) {
  std::ifstream stream(file);
  std::string name;
  for (std::string line; stream >> name && std::getline(stream, line);) {
    if (name != key) continue;
    try {
      return std::stoll(line);
    } catch (const std::logic_error&) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace ucxring::shm
