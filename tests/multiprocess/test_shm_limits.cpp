// What groups over shared memory cost and leave behind, and where memory cannot be shared.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>

#include "tests/multiprocess/shm_member.hpp"

namespace ucxring::testing {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void wait_for_the_late(const ProcessRank& process, Call call) {
  const auto group = join(process, shm_options());
  for (int i = 0; i < 100; ++i) check_sum(*group, 3, call);
  if (process.rank == Rank(1)) std::this_thread::sleep_for(3s);
  const double before = cpu_seconds();
  check_sum(*group, 3, call);
  const double spent = cpu_seconds() - before;
  if (process.rank != Rank(0)) return;
  fmt::print("waiting for 3 s took {:.3f} s of CPU\n", spent);
  require(spent < 0.3, "waiting burns CPU");
}

const RegisterRole kLateImmediate("shm_late_immediate", [](const ProcessRank& process) {
  wait_for_the_late(process, Call::immediate);
});
const RegisterRole kLateAsynchronous("shm_late_asynchronous", [](const ProcessRank& process) {
  wait_for_the_late(process, Call::asynchronous);
});

/// Open descriptors and mappings of this process.
struct Holdings {
  std::size_t descriptors = 0;
  std::size_t mappings = 0;

  static Holdings now() {
    const fs::directory_iterator all("/proc/self/fd");
    std::ifstream maps("/proc/self/maps");
    Holdings found{static_cast<std::size_t>(std::distance(begin(all), end(all))), 0};
    for (std::string line; std::getline(maps, line);) ++found.mappings;
    return found;
  }
};

const RegisterRole kHundred("shm_hundred_groups", [](const ProcessRank& process) {
  auto options = shm_options();
  options.config.probe = true;
  const auto keeper = join(process, shm_options(), "keeper");
  const auto cycle = [&](int number) {
    const auto group = join(process, options, std::to_string(number));
    check_sum(*group);
    check_sum(*group, 100'000, Call::asynchronous);
  };
  for (int i = 0; i < 10; ++i) cycle(i);
  keeper->barrier().wait().throw_if_error();
  const Holdings early = Holdings::now();
  for (int i = 10; i < 100; ++i) cycle(i);
  keeper->barrier().wait().throw_if_error();
  const Holdings late = Holdings::now();
  require(late.descriptors <= early.descriptors + 1 && late.mappings <= early.mappings + 4,
          fmt::format("descriptors {} → {}, mappings {} → {}", early.descriptors, late.descriptors,
                      early.mappings, late.mappings));
});

std::string socket_folder(const ProcessRank& process) {
  const fs::path folder = process.directory / "sockets";
  fs::create_directory(folder);
  return folder;
}

/// Whether this process holds a file that would outlive it.
bool holds_named_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/dev/shm/") != std::string::npos) return true;
  }
  return false;
}

const RegisterRole kLeftovers("shm_leftovers", [](const ProcessRank& process) {
  auto options = shm_options();
  options.config.shm_dir = socket_folder(process);
  const auto group = join(process, options);
  check_sum(*group);
  check_sum(*group, 1'000'000);
  require(!holds_named_memory(), "memory in a file with a name");
  require(fs::is_empty(options.config.shm_dir), "sockets lie in the directory");
  process.say(fmt::format("ready{}", process.rank.value));
  std::this_thread::sleep_for(60s);
});

constexpr std::array<std::string_view, 4> kFoldersOfTests{"ucxring_test.", "ucxring-test-", "ucxring_perf.",
                                                          "ucxring-bench-"};

/// Files that ucxring could have made and a test could not.
std::set<std::string> files_of_ours() {
  std::set<std::string> found;
  for (const fs::path& folder : {fs::path("/dev/shm"), fs::temp_directory_path()}) {
    if (!fs::is_directory(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      // Folders of tests and benchmarks that run at the same time come and go.
      const bool others = std::any_of(kFoldersOfTests.begin(), kFoldersOfTests.end(),
                                      [&](std::string_view prefix) { return name.starts_with(prefix); });
      if (name.find("ucxring") != std::string::npos && !others) found.insert(name);
    }
  }
  return found;
}

void limit_files(rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  require(setrlimit(RLIMIT_FSIZE, &limit) == 0, "no limit");
}

/// The last rank may not have files large enough.
void join_with_a_limited_rank(const ProcessRank& process, std::string_view transport) {
  if (process.rank.value == process.world_size - 1) limit_files(1 << 20);
  const auto group = join(process, shm_options("auto"));
  require(group->transport_name() == transport, std::string(group->transport_name()));
  for (const std::size_t count : {std::size_t{3}, std::size_t{1'000'000}}) {
    check_sum(*group, count, Call::immediate);
    check_sum(*group, count, Call::asynchronous);
  }
}

const RegisterRole kLimitedPair("shm_limited_pair",
                                [](const ProcessRank& process) { join_with_a_limited_rank(process, "ucx"); });
const RegisterRole kLimitedThree("shm_limited_three", [](const ProcessRank& process) {
  join_with_a_limited_rank(process, "shm+ucx");
});

Status refusal(const ProcessRank& process, const Communicator::Options& options, const std::string& name) {
  try {
    static_cast<void>(join(process, options, name));
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

const RegisterRole kRefused("shm_refused", [](const ProcessRank& process) {
  if (process.rank == Rank(1)) limit_files(1 << 20);
  const Status why = refusal(process, shm_options(), "first");
  const std::size_t least = shm_options().config.shm_bytes;
  require(why.code() == ErrorCode::unsupported && mentions(why, "RLIMIT_FSIZE") && mentions(why, "bytes"),
          std::string(why.message()));
  // "cannot get N bytes": the outbox, a little more than the arena.
  const auto place = why.message().find("cannot get ");
  require(place != std::string_view::npos, std::string(why.message()));
  const auto bytes = std::stoull(std::string(why.message().substr(place + 11)));
  require(bytes > least && bytes < 2 * least, std::string(why.message()));
});

const RegisterRole kNamespaces("shm_namespaces", [](const ProcessRank& process) {
  if (process.rank == Rank(1)) require(unshare(CLONE_NEWNET) == 0, "no namespace");
  auto options = shm_options();
  const Status why = refusal(process, options, "first");
  require(why.code() == ErrorCode::unsupported && mentions(why, "UCXRING_SHM_DIR"),
          std::string(why.message()));
  options.config.shm_dir = socket_folder(process);
  const auto group = join(process, options, "second");
  check_sum(*group);
});

bool may_unshare() {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWNET) == 0 ? 0 : 1);
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

void expect_success(const std::string& role, int world_size, std::chrono::seconds limit = 60s) {
  Processes ranks(role, world_size);
  EXPECT_EQ(ends(ranks, world_size, limit), std::vector<int>(static_cast<std::size_t>(world_size), 0));
}

TEST(ShmGroups, WaitForALateRankWithoutSpinning) { expect_success("shm_late_immediate", 2); }
TEST(ShmGroups, WaitForALateRankWithoutSpinningAsynchronously) { expect_success("shm_late_asynchronous", 2); }
TEST(ShmGroups, AHundredGroupsLeakNothing) { expect_success("shm_hundred_groups", 2, 400s); }
TEST(ShmGroups, APairGoesOverUcxWhenOneMayNotHaveTheMemory) { expect_success("shm_limited_pair", 2); }
TEST(ShmGroups, OneMayNotHaveTheMemory) { expect_success("shm_limited_three", 3); }
TEST(ShmGroups, SayHowMuchMemoryIsMissing) { expect_success("shm_refused", 2); }

TEST(ShmGroups, LeaveNoFilesWhenKilled) {
  const auto before = files_of_ours();
  {
    Processes ranks("shm_leftovers", 3);
    for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(ranks.wait_for(fmt::format("ready{}", rank)));
    for (int rank = 0; rank < 3; ++rank) ranks.signal(rank, SIGKILL);
    EXPECT_EQ(ends(ranks, 3, 5s), std::vector<int>(3, -SIGKILL));
  }
  EXPECT_EQ(files_of_ours(), before);
}

TEST(ShmGroups, NetworksApartNeedADirectory) {
  if (!may_unshare()) GTEST_SKIP() << "needs the right to make a network namespace";
  expect_success("shm_namespaces", 2);
}

}  // namespace
}  // namespace ucxring::testing
