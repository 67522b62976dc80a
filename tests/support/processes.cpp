#include "tests/support/processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

namespace ucxring::testing {
namespace {

constexpr int kRunning = -2000;
constexpr int kTooLate = -1000;
constexpr const char* kSwitch = "--role";

std::map<std::string, Role>& roles() {
  static std::map<std::string, Role> all;
  return all;
}

pid_t start(const std::string& role, int rank, int world_size, const std::string& directory) {
  const std::string rank_text = std::to_string(rank);
  const std::string size_text = std::to_string(world_size);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  execl("/proc/self/exe", "rank", kSwitch, role.c_str(), rank_text.c_str(), size_text.c_str(),
        directory.c_str(), nullptr);
  _exit(127);
}

}  // namespace

void ProcessRank::say(const std::string& milestone) const { std::ofstream(directory / ("say." + milestone)); }

bool ProcessRank::heard(const std::string& milestone) const {
  return std::filesystem::exists(directory / ("say." + milestone));
}

RegisterRole::RegisterRole(const std::string& name, Role role) { roles()[name] = std::move(role); }

bool run_role(int argc, char** argv, int& exit_status) {
  if (argc != 6 || std::string(argv[1]) != kSwitch) return false;
  try {
    roles().at(argv[2])({Rank(std::stoi(argv[3])), std::stoi(argv[4]), argv[5]});
    exit_status = 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{} rank {}: {}\n", argv[2], argv[3], error.what());
    exit_status = 1;
  }
  return true;
}

Processes::Processes(const std::string& role, int world_size)
    : statuses_(static_cast<std::size_t>(world_size), kRunning) {
  std::string name = (std::filesystem::temp_directory_path() / "ucxring_test.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  directory_ = name;
  for (int rank = 0; rank < world_size; ++rank) pids_.push_back(start(role, rank, world_size, name));
}

Processes::~Processes() {
  for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
    if (!has_ended(rank)) {
      signal(rank, SIGKILL);
      waitpid(pids_[static_cast<std::size_t>(rank)], nullptr, 0);
    }
  }
  std::filesystem::remove_all(directory_);
}

void Processes::signal(int rank, int number) const { kill(pids_.at(static_cast<std::size_t>(rank)), number); }

void Processes::announce(const std::string& milestone) const {
  ProcessRank{Rank(0), static_cast<int>(pids_.size()), directory_}.say(milestone);
}

bool Processes::has_ended(int rank) {
  int& status = statuses_.at(static_cast<std::size_t>(rank));
  int raw = 0;
  if (status == kRunning && waitpid(pids_[static_cast<std::size_t>(rank)], &raw, WNOHANG) > 0) {
    status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -WTERMSIG(raw);
  }
  return status != kRunning;
}

bool Processes::wait_for(const std::string& milestone) {
  const ProcessRank view{Rank(0), static_cast<int>(pids_.size()), directory_};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    if (view.heard(milestone)) return true;
    for (int rank = 0; rank < view.world_size; ++rank) {
      if (has_ended(rank) && statuses_[static_cast<std::size_t>(rank)] > 0) return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

int Processes::wait(int rank, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!has_ended(rank)) {
    if (std::chrono::steady_clock::now() > end) return kTooLate;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return statuses_[static_cast<std::size_t>(rank)];
}

}  // namespace ucxring::testing
