#include "transport/shm/cores.hpp"

#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>

#include "transport/shm/cgroup.hpp"

namespace ucxring::shm {
namespace {

namespace fs = std::filesystem;
using Mask = std::vector<std::uint64_t>;

constexpr std::size_t kMostCores = 8192;

Mask own_mask() {
  std::array<std::uint64_t, kMostCores / 64> bits{};
  if (sched_getaffinity(0, sizeof(bits), reinterpret_cast<cpu_set_t*>(bits.data())) != 0) return {1};
  Mask mask(bits.begin(), bits.end());
  while (!mask.empty() && mask.back() == 0) mask.pop_back();
  return mask;
}

int count(const Mask& mask) {
  int bits = 0;
  for (const std::uint64_t word : mask) bits += std::popcount(word);
  return bits;
}

Mask join(Mask left, const Mask& right) {
  left.resize(std::max(left.size(), right.size()));
  for (std::size_t i = 0; i < right.size(); ++i) left[i] |= right[i];
  return left;
}

bool lies_within(const Mask& inner, const Mask& outer) { return count(join(inner, outer)) == count(outer); }

/// Quota in cores; of "max 100000" and of -1 there is none.
std::optional<double> quota_of(const fs::path& folder) {
  // cpu.max is "quota period": the quota is the key of the period.
  if (const auto quota = read_number(folder / "cpu.max")) {
    const auto period = read_number(folder / "cpu.max", std::to_string(*quota));
    if (*quota > 0 && period && *period > 0)
      return static_cast<double>(*quota) / static_cast<double>(*period);
  }
  const auto quota = read_number(folder / "cpu.cfs_quota_us");
  const auto period = read_number(folder / "cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

/// The same number for all processes that look at the same control group, from whichever container.
std::uint64_t identity_of(const fs::path& folder) {
  struct stat about {};
  if (stat(folder.c_str(), &about) != 0) return 0;
  return (static_cast<std::uint64_t>(about.st_dev) << 40) ^ static_cast<std::uint64_t>(about.st_ino);
}

/// All quotas together in cores; 0 when one rank has no limit.
double total_quota(std::span<const CpuShare> shares) {
  std::map<std::uint64_t, double> quotas;
  for (const CpuShare& share : shares) {
    if (share.quota <= 0) return 0;
    quotas[share.quota_id] = share.quota;
  }
  double total = 0;
  for (const auto& [id, quota] : quotas) total += quota;
  return total;
}

}  // namespace

CpuShare own_cpu_share(const fs::path& root) {
  CpuShare share;
  share.mask = own_mask();
  for (const fs::path& folder : cgroup_folders("cpu", root)) {
    const auto quota = quota_of(folder);
    if (!quota || (share.quota > 0 && *quota >= share.quota)) continue;
    share.quota = *quota;
    share.quota_id = identity_of(folder);
  }
  return share;
}

CpuBudget cpu_budget(std::span<const CpuShare> shares) {
  CpuBudget budget;
  Mask all;
  for (const CpuShare& share : shares) all = join(std::move(all), share.mask);
  budget.cores = std::max(1, count(all));
  if (const double quota = total_quota(shares); quota > 0 && quota < budget.cores) {
    budget.cores = std::max(1, static_cast<int>(std::floor(quota)));
  }
  budget.oversubscribed = std::ssize(shares) > budget.cores;
  for (const CpuShare& outer : shares) {
    const auto inside = std::count_if(shares.begin(), shares.end(), [&](const CpuShare& inner) {
      return lies_within(inner.mask, outer.mask);
    });
    if (inside > std::max(1, count(outer.mask))) budget.oversubscribed = true;
  }
  return budget;
}

}  // namespace ucxring::shm
