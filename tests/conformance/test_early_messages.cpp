// Messages that come before this rank has a group, or before it looks for them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/conformance/peer_groups.hpp"

namespace ucxring::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class EarlyMessages : public ::testing::TestWithParam<PeerGroups> {
 protected:
  static constexpr std::size_t kSmall = 100;
  static constexpr std::size_t kLarge = 100'000;
  static constexpr CallOptions kAtOnce{.wait_soon = true};

  /// The transport of `rank`, in a context that is polled for a while after `called`, as another group on it
  /// or a probe does.
  [[nodiscard]] static std::unique_ptr<Transport> join_and_poll(const Join& join, Rank rank,
                                                                const std::atomic<bool>& called) {
    auto transport = join(rank);
    while (!called) transport->context()->progress();
    const auto end = Clock::now() + 100ms;
    while (Clock::now() < end) transport->context()->progress();
    return transport;
  }
};

TEST_P(EarlyMessages, AreReceivedByAGroupThatIsMadeLater) {
  std::atomic<bool> sent{false};
  const auto join = GetParam().make_join(make_memory_store(), 2);
  const auto late_join = [&](Rank rank) {
    return rank == Rank(0) ? join(rank) : join_and_poll(join, rank, sent);
  };
  run_on_threads(2, late_join, test_options(), [&](Communicator& group) {
    if (group.rank() == Rank(0)) {
      const Bytes small = numbered(kSmall, 0, 1);
      const Bytes large = numbered(kLarge, 0, 2);
      send(group, small, 1, 1).wait().throw_if_error();
      const Operation sending = send(group, large, 1, 2);
      sent = true;
      sending.wait().throw_if_error();
    } else {
      EXPECT_EQ(receive(group, kLarge, 0, 2), numbered(kLarge, 0, 2));
      EXPECT_EQ(receive(group, kSmall, 0, 1), numbered(kSmall, 0, 1));
    }
  });
}

// Each root is done with its broadcast before anything tells it that there is another root.
TEST_P(EarlyMessages, GiveAwayTwoRootsInTheNextCall) {
  constexpr int kRanks = 3;
  for (const bool group_is_late : {false, true}) {
    std::atomic<bool> called{false};
    std::array<Status, kRanks> outcomes;
    const auto join = GetParam().make_join(make_memory_store(), kRanks);
    const auto late_join = [&](Rank rank) {
      const bool late = group_is_late && rank != Rank(0);
      return late ? join_and_poll(join, rank, called) : join(rank);
    };
    const auto disagree = [&](Communicator& group) {
      const bool first = group.rank() == Rank(0);
      Bytes data(8);
      outcomes[static_cast<std::size_t>(group.rank().value)] = failure_of([&] {
        while (!first && !called) std::this_thread::yield();
        const Operation broadcast =
            group.broadcast(buffer_of(data), DataType::uint8, Rank(first ? 0 : 1), kAtOnce);
        if (!first) broadcast.wait().throw_if_error();
        const Operation barrier = group.barrier(first ? CallOptions{} : kAtOnce);
        called = true;
        broadcast.wait().throw_if_error();
        barrier.wait().throw_if_error();
      });
    };
    EXPECT_THROW(run_on_threads(kRanks, late_join, test_options(), disagree), Error);
    bool named = false;
    for (const Status& outcome : outcomes) {
      EXPECT_FALSE(outcome.ok());
      // A busy rank may see a connection end before it has read why.
      if (GetParam().name == "ucx" && outcome.code() == ErrorCode::peer_lost) continue;
      named = true;
      EXPECT_EQ(outcome.code(), ErrorCode::mismatch) << outcome.message();
      EXPECT_NE(outcome.message().find("operation #1"), std::string::npos) << outcome.message();
    }
    EXPECT_TRUE(named);
  }
}

INSTANTIATE_TEST_SUITE_P(Over, EarlyMessages, ::testing::ValuesIn(all_peer_groups()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ucxring::testing
