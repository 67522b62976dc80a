// Processes find each other's memory, across namespaces and users, and notice when one of them ends.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/support/processes.hpp"
#include "transport/shm/neighbours.hpp"
#include "transport/shm/pool.hpp"

namespace ucxring::shm {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::kPrompt;
using testing::Processes;
using testing::ProcessRank;
using testing::RegisterRole;
using Clock = std::chrono::steady_clock;

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

void await(const ProcessRank& process, const std::string& milestone) {
  const auto end = Clock::now() + 20s;
  while (!process.heard(milestone)) {
    require(Clock::now() < end, "nobody said " + milestone);
    std::this_thread::sleep_for(1ms);
  }
}

/// A rank's process in a group.
struct Member {
  explicit Member(const ProcessRank& process, const Config& config = {})
      : doorbell(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        outbox(Region::create(10'000, "test")),
        here{random_token(), doorbell.get(), Pool::process().fd(), Pool::process().bytes()} {
    outbox.data()[9'999] = static_cast<std::byte>('a' + process.rank.value);
    const auto store = make_file_store(process.directory / "store");
    found = meet(*store, process.rank, process.world_size, 20s, &outbox, "", here, config);
  }

  /// The peer, whose memory must be readable.
  [[nodiscard]] const Peer& peer(int rank) const {
    const auto& met = found.peers.at(static_cast<std::size_t>(rank));
    require(met.has_value(), "shares no memory: " + found.reason);
    require(met->outbox.data()[9'999] == static_cast<std::byte>('a' + rank), "reads another one's memory");
    require(!met->neighbour->dead() && met->neighbour->death_fd() >= 0, "dead at once");
    return *met;
  }

  Descriptor doorbell;
  Region outbox;
  Here here;
  Neighbours found;
};

void await_death(const Neighbour& neighbour) {
  pollfd death{neighbour.death_fd(), POLLIN, 0};
  require(poll(&death, 1, 20'000) == 1 && neighbour.dead(), "a death went unnoticed");
}

void note_time(const fs::path& file) { std::ofstream(file) << Clock::now().time_since_epoch().count(); }

Clock::time_point noted_time(const fs::path& file) {
  Clock::rep count = 0;
  std::ifstream(file) >> count;
  return Clock::time_point(Clock::duration(count));
}

/// Rank 2 leaves a forked child behind that lives on.
const RegisterRole kKilled("killed", [](const ProcessRank& process) {
  const Member member(process);
  for (int rank = 0; rank < 3; ++rank) {
    if (Rank(rank) != process.rank) member.peer(rank).neighbour->ring();
  }
  if (process.rank == Rank(2)) {
    if (fork() == 0) {
      while (!process.heard("over") && fs::exists(process.directory)) std::this_thread::sleep_for(1ms);
      _exit(0);
    }
    process.say("ready");
    std::this_thread::sleep_for(60s);
    return;
  }
  const int other = 1 - process.rank.value;
  process.say(fmt::format("waiting{}", process.rank.value));
  await_death(*member.peer(2).neighbour);
  note_time(process.directory / fmt::format("noticed{}", process.rank.value));
  static_cast<void>(member.peer(other));
  process.say(fmt::format("alive{}", other));
  await(process, fmt::format("alive{}", process.rank.value));
});

TEST(ShmProcesses, DeathIsNoticedAtOnce) {
  Processes ranks("killed", 3);
  for (const char* milestone : {"ready", "waiting0", "waiting1"}) ASSERT_TRUE(ranks.wait_for(milestone));
  std::this_thread::sleep_for(50ms);
  const auto killed = Clock::now();
  ranks.signal(2, SIGKILL);
  EXPECT_EQ(ranks.wait(0, 20s), 0);
  EXPECT_EQ(ranks.wait(1, 20s), 0);
  for (const char* file : {"noticed0", "noticed1"}) {
    EXPECT_LT(noted_time(ranks.directory() / file) - killed, kPrompt) << file;
  }
  ranks.announce("over");
}

/// Rank 1 has registered memory that rank 0 reads in place; groups come and go.
const RegisterRole kPool("pool", [](const ProcessRank& process) {
  std::byte* const data = Pool::process().allocate(5000);
  std::memset(data, 'A' + process.rank.value, 5000);
  const Member first(process);
  const Member second(process);
  const Peer& peer = second.peer(1 - process.rank.value);
  require(peer.reads_pool && peer.neighbour->pool_bytes() == Pool::process().bytes(), "no registered memory");
  // Both pools begin with the same allocation.
  const std::byte* const theirs = peer.neighbour->pool() + Pool::process().offset_of(data);
  require(theirs[4999] == static_cast<std::byte>('A' + 1 - process.rank.value), "other registered memory");
  std::byte* const later = Pool::process().allocate(5000);
  later[0] = std::byte{77};
  process.say(fmt::format("allocated{}", process.rank.value));
  await(process, fmt::format("allocated{}", 1 - process.rank.value));
  const std::byte* const also = peer.neighbour->pool() + Pool::process().offset_of(later);
  require(*also == std::byte{77}, "memory that was registered later is not seen");
  process.say(fmt::format("read{}", process.rank.value));
  await(process, fmt::format("read{}", 1 - process.rank.value));
});

TEST(ShmProcesses, RegisteredMemoryIsReadInPlace) {
  Processes ranks("pool", 2);
  EXPECT_EQ(ranks.wait(0, 30s), 0);
  EXPECT_EQ(ranks.wait(1, 30s), 0);
}

/// Runs `role` where rank 1 is in new namespaces of the kinds in `flags`.
void meet_across(const ProcessRank& process, int flags, const Config& config, const std::vector<int>& hosts,
                 const std::string& reason) {
  if (process.rank == Rank(1)) require(unshare(flags) == 0, "no namespaces");
  const Member member(process, config);
  require(member.found.hosts == hosts, "other hosts than expected: " + member.found.reason);
  require(
      member.found.reason.find(reason) != std::string::npos && member.found.reason.empty() == reason.empty(),
      "another reason: " + member.found.reason);
  require(member.found.avoidable == !reason.empty(), "avoidable or not?");
}

const RegisterRole kNetworks("networks", [](const ProcessRank& process) {
  meet_across(process, CLONE_NEWNET, {}, {0, 1}, "UCXRING_SHM_DIR");
});

const RegisterRole kDirectory("directory", [](const ProcessRank& process) {
  Config config;
  config.shm_dir = process.directory;
  meet_across(process, CLONE_NEWNET | CLONE_NEWIPC, config, {0, 0}, "");
});

/// Rank 1 runs in PID namespaces of its own, where no PID of the other means anything, and ends first.
const RegisterRole kPids("pids", [](const ProcessRank& process) {
  if (process.rank == Rank(0)) {
    const Member member(process);
    const Peer& peer = member.peer(1);
    process.say("met");
    await_death(*peer.neighbour);
    return;
  }
  require(unshare(CLONE_NEWPID) == 0, "no namespaces");
  const pid_t child = fork();
  if (child == 0) {
    try {
      const Member member(process);
      static_cast<void>(member.peer(0));
      await(process, "met");
      _exit(0);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      _exit(1);
    }
  }
  int status = 1;
  require(waitpid(child, &status, 0) == child && status == 0, "the rank in the namespace failed");
  _exit(0);  // the namespace has lost its first process: LeakSanitizer could not start its own here
});

const RegisterRole kUsers("users", [](const ProcessRank& process) {
  const fs::path store = process.directory / "store";
  if (process.rank == Rank(0)) {
    make_file_store(store)->add("makes the lock", 1);
    for (const fs::path& path : {process.directory, store, store / ".lock"})
      fs::permissions(path, fs::perms::all);
    process.say("open");
  } else {
    await(process, "open");
    require(setuid(65534) == 0, "no other user");
  }
  const Member member(process);
  static_cast<void>(member.peer(1 - process.rank.value));
  process.say(fmt::format("met{}", process.rank.value));
  await(process, fmt::format("met{}", 1 - process.rank.value));
});

/// What only root may try.
class AsRoot : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(ShmProcesses, AsRoot, ::testing::Values("networks", "directory", "pids", "users"),
                         [](const auto& role) { return std::string(role.param); });

TEST_P(AsRoot, MemoryIsSharedOrTheReasonGiven) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  Processes ranks(GetParam(), 2);
  EXPECT_EQ(ranks.wait(0, 30s), 0);
  EXPECT_EQ(ranks.wait(1, 30s), 0);
}

}  // namespace
}  // namespace ucxring::shm
