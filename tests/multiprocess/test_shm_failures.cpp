// Ranks that die, stop, leave or abort while others wait.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "tests/multiprocess/shm_member.hpp"

namespace ucxring::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kVictim = 2;
constexpr std::size_t kLarge = std::size_t{16} << 20U;  // 64 MiB of int32

/// Kills its process when the test says "die", and notes when.
class Assassin {
 public:
  explicit Assassin(const ProcessRank& process)
      : thread_([process] {
          hear(process, "die");
          {
            std::ofstream file(process.directory / "died");
            file << Clock::now().time_since_epoch().count();
          }
          kill(getpid(), SIGKILL);
        }) {}
  ~Assassin() { thread_.join(); }
  Assassin(const Assassin&) = delete;
  Assassin& operator=(const Assassin&) = delete;

 private:
  std::thread thread_;
};

Clock::duration since_death(const ProcessRank& process) {
  Clock::rep died = 0;
  std::ifstream(process.directory / "died") >> died;
  return Clock::now().time_since_epoch() - Clock::duration(died);
}

void require_prompt(const ProcessRank& process, std::string_view what) {
  const auto late = since_death(process);
  fmt::print("{}: rank {} knows after {} ms\n", what, process.rank.value,
             std::chrono::duration_cast<std::chrono::milliseconds>(late).count());
  require(late < kPrompt, "the death was noticed late");
}

/// After a failure: later calls fail, leaving is quick, and the survivors can go on in a new group.
void go_on(const ProcessRank& process, std::unique_ptr<Communicator>& group, ErrorCode code) {
  std::vector<std::int32_t> data(3);
  const Status again = failure_of([&] { return start_sum(*group, data, Call::immediate); });
  require(again.code() == code && mentions(again, "failed earlier"), "a dead group takes calls");
  const auto begin = Clock::now();
  group.reset();
  require(Clock::now() - begin < kPrompt, "leaving takes too long");
  group = join(process, shm_options(), "second", kVictim);
  check_sum(*group);
}

/// The last of three ranks dies while the others do `wait`, which returns their failure.
template <typename Wait>
void lose_a_rank(const ProcessRank& process, std::string_view what, Wait wait) {
  auto group = join(process, shm_options());
  check_sum(*group);
  std::vector<std::int32_t> data(kLarge, 1);  // here, since it takes time
  const bool victim = process.rank == Rank(kVictim);
  std::optional<Assassin> assassin;
  if (victim) assassin.emplace(process);
  process.say(fmt::format("ready{}", process.rank.value));
  const Status failure = wait(*group, Numbers(data), victim);
  if (victim) return;
  require_prompt(process, what);
  require_failure(failure, ErrorCode::peer_lost, kVictim);
  go_on(process, group, ErrorCode::peer_lost);
}

Status wait_for_small(Communicator& group, Numbers data, bool victim, Call call) {
  if (victim) return {};
  return failure_of([&] { return start_sum(group, data.first(3), call); });
}

Status reduce_until_failure(Communicator& group, Numbers data) {
  for (;;) {
    Status failure = failure_of([&] { return start_sum(group, data, Call::asynchronous); });
    if (!failure.ok()) return failure;
  }
}

Status watch(Communicator& group, Numbers /*data*/, bool victim) {
  while (!victim && group.status().ok()) std::this_thread::sleep_for(1ms);
  return group.status();
}

const RegisterRole kKilledImmediate("shm_killed_immediate", [](const ProcessRank& process) {
  lose_a_rank(process, "small, immediate", [](Communicator& group, Numbers data, bool victim) {
    return wait_for_small(group, data, victim, Call::immediate);
  });
});
const RegisterRole kKilledAsynchronous("shm_killed_asynchronous", [](const ProcessRank& process) {
  lose_a_rank(process, "small, asynchronous", [](Communicator& group, Numbers data, bool victim) {
    return wait_for_small(group, data, victim, Call::asynchronous);
  });
});
const RegisterRole kKilledInFlight("shm_killed_in_flight", [](const ProcessRank& process) {
  lose_a_rank(process, "64 MiB in flight",
              [](Communicator& group, Numbers data, bool) { return reduce_until_failure(group, data); });
});
const RegisterRole kKilledIdle("shm_killed_idle",
                               [](const ProcessRank& process) { lose_a_rank(process, "idle", watch); });

class ShmDeath : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(While, ShmDeath, ::testing::Values("immediate", "asynchronous", "in_flight", "idle"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(ShmDeath, SurvivorsNameTheDead) {
  Processes ranks(std::string("shm_killed_") + GetParam(), 3);
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(ranks.wait_for(fmt::format("ready{}", rank)));
  std::this_thread::sleep_for(300ms);
  ranks.announce("die");
  EXPECT_EQ(ends(ranks, 3, 20s), (std::vector<int>{0, 0, -SIGKILL}));
}

/// The victim is stopped between two operations and goes on after the others have given up.
void outlast_a_stopped_rank(const ProcessRank& process, std::size_t count, Call call) {
  auto group = join(process, shm_options());
  check_sum(*group, count);
  std::vector<std::int32_t> data(count);
  group->set_timeout(2s);
  process.say(fmt::format("ready{}", process.rank.value));
  hear(process, "stopped");
  const auto begin = Clock::now();
  Status failure = failure_of([&] { return start_sum(*group, data, call); });
  // The victim finds what the others sent before they gave up.
  if (failure.ok()) failure = failure_of([&] { return group->barrier(options_of(call)); });
  require(failure.code() == ErrorCode::timeout, "no timeout");
  if (process.rank == Rank(kVictim)) return;
  require_failure(failure, ErrorCode::timeout, kVictim);
  const auto waited = Clock::now() - begin;
  require(waited > 1900ms && waited < 2s + kPrompt, "the deadline was missed");
  go_on(process, group, ErrorCode::timeout);
  process.say(fmt::format("failed{}", process.rank.value));
}

const RegisterRole kStoppedSmall("shm_stopped_small", [](const ProcessRank& process) {
  outlast_a_stopped_rank(process, 3, Call::immediate);
});
const RegisterRole kStoppedLarge("shm_stopped_large", [](const ProcessRank& process) {
  outlast_a_stopped_rank(process, kLarge / 8, Call::asynchronous);
});

class ShmStop : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Messages, ShmStop, ::testing::Values("small", "large"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(ShmStop, EndsInATimeout) {
  Processes ranks(std::string("shm_stopped_") + GetParam(), 3);
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(ranks.wait_for(fmt::format("ready{}", rank)));
  ranks.signal(kVictim, SIGSTOP);
  std::this_thread::sleep_for(50ms);
  ranks.announce("stopped");
  EXPECT_TRUE(ranks.wait_for("failed0"));
  EXPECT_TRUE(ranks.wait_for("failed1"));
  ranks.signal(kVictim, SIGCONT);
  EXPECT_EQ(ends(ranks, 3, 20s), (std::vector<int>{0, 0, 0}));
}

/// Rank 1 goes by `leave` while the others wait for it.
template <typename Leave>
void be_left(const ProcessRank& process, ErrorCode code, std::string_view reason, Leave leave) {
  auto group = join(process, shm_options());
  check_sum(*group);
  process.say(fmt::format("ready{}", process.rank.value));
  if (process.rank == Rank(1)) {
    hear(process, "leave");
    leave(group);
    return;
  }
  std::vector<std::int32_t> data(3);
  const auto call = process.rank == Rank(0) ? Call::immediate : Call::asynchronous;
  const Status failure = failure_of([&] { return start_sum(*group, data, call); });
  process.say(fmt::format("failed{}", process.rank.value));
  require(failure.code() == code && mentions(failure, "rank 1") && mentions(failure, reason),
          std::string(failure.message()));
  group.reset();
}

const RegisterRole kLeft("shm_left", [](const ProcessRank& process) {
  be_left(process, ErrorCode::peer_lost, "left the group", [&](auto& group) {
    group.reset();
    hear(process, "failed0");  // its process lives on
    hear(process, "failed2");
  });
});
const RegisterRole kExited("shm_exited", [](const ProcessRank& process) {
  be_left(process, ErrorCode::peer_lost, "ended", [](auto&) { _exit(0); });
});
const RegisterRole kAborted("shm_aborted", [](const ProcessRank& process) {
  be_left(process, ErrorCode::internal, "no more", [&](auto& group) {
    group->abort(Status(ErrorCode::internal, "no more"));
    hear(process, "failed0");
    hear(process, "failed2");
  });
});

class ShmLeave : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Rank, ShmLeave, ::testing::Values("left", "exited", "aborted"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(ShmLeave, EndsTheOthersAtOnce) {
  Processes ranks(std::string("shm_") + GetParam(), 3);
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(ranks.wait_for(fmt::format("ready{}", rank)));
  std::this_thread::sleep_for(200ms);
  ranks.announce("leave");
  const auto begin = Clock::now();
  EXPECT_EQ(ends(ranks, 3, 20s), (std::vector<int>{0, 0, 0}));
  EXPECT_LT(Clock::now() - begin, kPrompt);
}

}  // namespace
}  // namespace ucxring::testing
