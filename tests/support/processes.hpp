// Ranks as real processes: the test program starts itself again, once for each rank.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "transport/types.hpp"

namespace ucxring::testing {

/// What happens at once takes less than this, also on a machine with far too much to do; deadlines that end
/// things otherwise are longer.
inline constexpr std::chrono::seconds kPrompt{10};

/// What a rank's process knows.
struct ProcessRank {
  Rank rank;
  int world_size = 0;
  std::filesystem::path directory;  ///< shared by all ranks, for a file store and for `say`

  /// Tells the test and the other ranks that this rank has come to `milestone`.
  void say(const std::string& milestone) const;
  /// Whether any rank said it.
  [[nodiscard]] bool heard(const std::string& milestone) const;
};

/// Body of a rank; an exception fails the rank.
using Role = std::function<void(const ProcessRank&)>;

/// Registers a role by name; made as a global object.
struct RegisterRole {
  RegisterRole(const std::string& name, Role role);
};

/// Runs the role that the command line names. True, with the exit status, when it named one; else this is the
/// test.
[[nodiscard]] bool run_role(int argc, char** argv, int& exit_status);

/// The processes of one test. Kills what is left on destruction.
class Processes {
 public:
  Processes(const std::string& role, int world_size);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Shared by the ranks and this test.
  [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }
  void signal(int rank, int number) const;
  /// Says `milestone` to the ranks.
  void announce(const std::string& milestone) const;
  /// Waits for `milestone`; false after 30 s, or when a rank ended with a failure.
  [[nodiscard]] bool wait_for(const std::string& milestone);
  /// Waits until `rank` ended. Its exit status, −signal when it was killed, or −1000 after `limit`.
  [[nodiscard]] int wait(int rank, std::chrono::milliseconds limit);

 private:
  [[nodiscard]] bool has_ended(int rank);

  std::filesystem::path directory_;
  std::vector<pid_t> pids_;
  std::vector<int> statuses_;  // of ranks that ended; kRunning otherwise
};

}  // namespace ucxring::testing
