// Ranks as processes on this machine.
#pragma once

#include <filesystem>
#include <functional>

namespace ucxring::perf {

/// Exit statuses of ucxring_perf.
inline constexpr int kRight = 0;
inline constexpr int kWrong = 1;  ///< some element was wrong
inline constexpr int kBadUsage = 2;
inline constexpr int kRankFailed = 3;  ///< a rank failed or was killed

/// A new folder, removed with its contents at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Cores that this process may use.
[[nodiscard]] int allowed_cores();

/// Pins the calling thread, and threads that it makes later, to the allowed core number `rank`, round robin.
void bind_to_core(int rank);

/// Forks a process for each rank, and waits for all. `body` runs there and returns the exit status, kRight or
/// kWrong. When a rank ends otherwise, or this process is told to end, the other ranks are killed; they do
/// not outlive this process either way. Call it before any thread is made. Returns the exit status of the
/// whole.
[[nodiscard]] int run_local_ranks(int count, const std::function<int(int rank)>& body);

}  // namespace ucxring::perf
