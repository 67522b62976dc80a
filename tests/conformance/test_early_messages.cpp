// Messages that come before this rank has a group, or before it looks for them.
#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(Over, EarlyMessages, ::testing::ValuesIn(all_peer_groups()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ucxring::testing
