#include "bench/perf/local_ranks.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

namespace ucxring::perf {
namespace {

[[noreturn]] void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// Blocks the signals that the parent waits for. Ranks get the former mask back.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&blocked_);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&blocked_, number);
    sigprocmask(SIG_BLOCK, &blocked_, &former_);
  }
  ~BlockedSignals() { restore(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  void restore() const { sigprocmask(SIG_SETMASK, &former_, nullptr); }
  /// Waits for one of them.
  [[nodiscard]] int wait() const {
    int number = -1;
    while (number < 0) number = sigwaitinfo(&blocked_, nullptr);
    return number;
  }

 private:
  sigset_t blocked_{};
  sigset_t former_{};
};

class Children {
 public:
  void add(pid_t process) { processes_.push_back(process); }

  /// Kills those that still run. All are reaped afterwards.
  void kill_all() {
    for (const pid_t process : processes_) {
      if (process > 0) kill(process, SIGKILL);
    }
    for (pid_t& process : processes_) {
      if (process > 0) waitpid(process, nullptr, 0);
      process = 0;
    }
  }

  /// Reaps those that ended. False when one did not end well, which is said on standard error.
  bool reap() {
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      int status = 0;
      if (processes_[rank] == 0 || waitpid(processes_[rank], &status, WNOHANG) == 0) continue;
      processes_[rank] = 0;
      if (WIFSIGNALED(status)) {
        fmt::print(stderr, "ucxring_perf: rank {} was killed by signal {} ({})\n", rank, WTERMSIG(status),
                   strsignal(WTERMSIG(status)));
      }
      if (!WIFEXITED(status) || WEXITSTATUS(status) > kWrong) return false;
      worst_ = std::max(worst_, WEXITSTATUS(status));
    }
    return true;
  }

  [[nodiscard]] bool running() const {
    return std::any_of(processes_.begin(), processes_.end(), [](pid_t process) { return process != 0; });
  }
  [[nodiscard]] int worst() const noexcept { return worst_; }

 private:
  std::vector<pid_t> processes_;  // by rank; 0 once reaped
  int worst_ = kRight;
};

[[noreturn]] void run_child(pid_t parent, const BlockedSignals& signals, int rank,
                            const std::function<int(int)>& body) {
  signals.restore();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kRankFailed);  // it died before that
  std::exit(body(rank));
}

cpu_set_t allowed_set() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) throw_errno("sched_getaffinity");
  return allowed;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "ucxring_perf.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw_errno("mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

int allowed_cores() {
  const cpu_set_t allowed = allowed_set();
  return CPU_COUNT(&allowed);
}

void bind_to_core(int rank) {
  const cpu_set_t allowed = allowed_set();
  int skip = rank % CPU_COUNT(&allowed);
  std::size_t core = 0;
  while (!CPU_ISSET(core, &allowed) || skip-- > 0) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) throw_errno("sched_setaffinity");
}

int run_local_ranks(int count, const std::function<int(int rank)>& body) {
  const BlockedSignals signals;
  const pid_t parent = getpid();
  std::fflush(nullptr);  // or every rank prints what is still buffered
  Children children;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t process = fork();
    if (process == 0) run_child(parent, signals, rank, body);
    if (process < 0) {
      children.kill_all();
      throw_errno("fork");
    }
    children.add(process);
  }
  while (children.running()) {
    const int number = signals.wait();
    if (number == SIGCHLD && children.reap()) continue;
    children.kill_all();
    return number == SIGCHLD ? kRankFailed : 128 + number;
  }
  return children.worst();
}

}  // namespace ucxring::perf
