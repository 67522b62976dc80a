// How many processor cores the ranks of a host have together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace ucxring::shm {

/// The cores that one rank may use.
struct CpuShare {
  std::vector<std::uint64_t> mask;  ///< one bit a core, lowest first, no zero words at the end
  double quota = 0;  ///< cores' worth of time per time, shared by all who have `quota_id`; 0: no limit
  std::uint64_t quota_id = 0;

  friend bool operator==(const CpuShare&, const CpuShare&) = default;
};

/// What the ranks of a host have together.
struct CpuBudget {
  int cores = 1;
  bool oversubscribed = false;  ///< some ranks have to share cores
};

/// Of the calling thread: its affinity mask, and the tightest CPU quota of its control groups. `root` is "/"
/// but in tests.
[[nodiscard]] CpuShare own_cpu_share(const std::filesystem::path& root = "/");

/// The union of the masks, limited by the quotas. Oversubscribed: more ranks than cores, or more ranks
/// within the mask of one of them than it has bits.
[[nodiscard]] CpuBudget cpu_budget(std::span<const CpuShare> shares);

}  // namespace ucxring::shm
