// The control groups of this process, which limit its processors and memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace ucxring::shm {

/// Existing folders of this process's control group under `controller` ("cpu", "memory") and of the groups
/// around it, innermost first; of version 2 and of version 1, whichever is mounted. `root` is "/" but in
/// tests. Empty when there is no control group to see.
[[nodiscard]] std::vector<std::filesystem::path> cgroup_folders(std::string_view controller,
                                                                const std::filesystem::path& root);

/// The whole number at the start of `file`; nothing when the file does not exist or begins otherwise ("max").
[[nodiscard]] std::optional<std::int64_t> read_number(const std::filesystem::path& file);

/// The number that follows `key` in a file of lines "key number".
[[nodiscard]] std::optional<std::int64_t> read_number(const std::filesystem::path& file,
                                                      std::string_view key);

}  // namespace ucxring::shm
