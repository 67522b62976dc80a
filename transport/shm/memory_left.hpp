// How much memory this process may still take.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace ucxring::shm {

/// Memory that can be taken without the kernel having to kill somebody, and what sets that bound.
struct MemoryLeft {
  std::size_t bytes = 0;
  std::string bound;  ///< "memory of this machine", "memory limit of control group /x"
};

/// The least of the machine's available memory and what the limits of this process's control groups leave.
/// Shared memory is charged when it is allocated, and a control group that is full kills a process instead
/// of refusing: so callers ask first. `root` is "/" but in tests. Unlimited where nothing can be read.
[[nodiscard]] MemoryLeft memory_left(const std::filesystem::path& root = "/");

/// Bytes of physical memory.
[[nodiscard]] std::size_t physical_memory() noexcept;

}  // namespace ucxring::shm
