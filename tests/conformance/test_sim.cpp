// The simulator's own promises: its arithmetic, contention, determinism and faults.
#include "transport/sim/sim.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace ucxring::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

/// Round numbers: 1 byte/ns between hosts, 2 inside.
Options round_numbers(int world_size, int ranks_per_host = 1) {
  Options options;
  options.world_size = world_size;
  options.ranks_per_host = ranks_per_host;
  options.latency = nanoseconds(10'000);
  options.bandwidth = 1e9;
  options.host_latency = nanoseconds(500);
  options.host_bandwidth = 2e9;
  options.overhead = nanoseconds(200);
  return options;
}

/// A simulated group with messages whose arrival is to be timed.
class Network {
 public:
  explicit Network(const Options& options) : world(make_world(options)) {
    for (int rank = 0; rank < options.world_size; ++rank) ranks.push_back(create(world, Rank(rank)));
  }

  /// Sends `bytes` and posts the receive; returns the number of the message.
  std::size_t exchange(int from, int to, std::size_t bytes) {
    auto message = std::make_unique<Message>();
    message->to = to;
    message->data.resize(bytes);
    message->target.resize(bytes);
    Message& m = *message;
    const Tag tag = Tag::make(1, 0, messages.size());
    EXPECT_TRUE(ranks.at(static_cast<std::size_t>(to))
                    ->endpoint(Rank(from))
                    .receive_into({m.target.data(), bytes}, tag, 1, m.received)
                    .ok());
    EXPECT_TRUE(ranks.at(static_cast<std::size_t>(from))
                    ->endpoint(Rank(to))
                    .send(ConstBuffer(m.data.data(), bytes), tag, 1, m.sent)
                    .ok());
    messages.push_back(std::move(message));
    return messages.size() - 1;
  }

  /// Runs until nothing happens any more and notes when each receive finished.
  void run() {
    while (world->progress()) {
      for (auto& message : messages) {
        if (message->at == nanoseconds(-1) && message->received.finished()) message->at = world->elapsed();
      }
    }
  }
  [[nodiscard]] nanoseconds arrival(std::size_t message) const { return messages.at(message)->at; }
  [[nodiscard]] const Completion& received(std::size_t message) const {
    return messages.at(message)->received;
  }
  [[nodiscard]] const Completion& sent(std::size_t message) const { return messages.at(message)->sent; }

  struct Message {
    int to = 0;
    std::vector<std::byte> data;
    std::vector<std::byte> target;
    Completion sent;
    Completion received;
    nanoseconds at{-1};
  };
  std::vector<std::unique_ptr<Message>> messages;  // outlive the ranks that complete them
  std::shared_ptr<World> world;
  std::vector<std::unique_ptr<Transport>> ranks;
};

TEST(Sim, IdleNetworkTakesOverheadLatencyAndTransfer) {
  Network network(round_numbers(2));
  const auto message = network.exchange(0, 1, 1000);
  network.run();
  EXPECT_EQ(network.arrival(message), nanoseconds(200 + 10'000 + 1000));
}

TEST(Sim, RanksOfOneHostUseNoNic) {
  Network network(round_numbers(4, 2));
  const auto inside = network.exchange(0, 1, 1000);
  const auto itself = network.exchange(2, 2, 1000);
  network.run();
  EXPECT_EQ(network.arrival(inside), nanoseconds(200 + 500 + 500));
  EXPECT_EQ(network.arrival(itself), nanoseconds(200 + 500 + 500));
}

TEST(Sim, RendezvousAsksFirst) {
  Network network(round_numbers(2));
  const auto message = network.exchange(0, 1, 10'000);
  EXPECT_EQ(network.sent(message).state, Completion::State::pending);
  network.run();
  EXPECT_EQ(network.arrival(message), nanoseconds(200 + 10'000 + 10'000 + 200 + 10'000 + 10'000));
  EXPECT_EQ(network.sent(message).state, Completion::State::done);
}

TEST(Sim, MessagesOfOnePairPipeline) {
  Network network(round_numbers(2));
  const auto first = network.exchange(0, 1, 1000);
  const auto second = network.exchange(0, 1, 1000);
  network.run();
  EXPECT_EQ(network.arrival(first), nanoseconds(11'200));
  EXPECT_EQ(network.arrival(second), nanoseconds(12'200));
}

TEST(Sim, ReceivingNicSerialisesItsSenders) {
  Network network(round_numbers(3));
  const auto first = network.exchange(0, 2, 1000);
  const auto second = network.exchange(1, 2, 1000);
  network.run();
  EXPECT_EQ(network.arrival(first), nanoseconds(11'200));
  EXPECT_EQ(network.arrival(second), nanoseconds(12'200));
}

TEST(Sim, SendingNicIsSharedByItsHost) {
  Network shared(round_numbers(6, 2));
  const auto first = shared.exchange(0, 2, 1000);
  const auto second = shared.exchange(1, 4, 1000);  // another host: only the sending NIC is in common
  shared.run();
  EXPECT_EQ(shared.arrival(first), nanoseconds(11'200));
  EXPECT_EQ(shared.arrival(second), nanoseconds(12'200));

  Network apart(round_numbers(4));
  const auto third = apart.exchange(0, 2, 1000);
  const auto fourth = apart.exchange(1, 3, 1000);
  apart.run();
  EXPECT_EQ(apart.arrival(third), apart.arrival(fourth));
}

TEST(Sim, SlowRankTakesItsFactor) {
  Network network(round_numbers(2));
  network.world->slow(Rank(0), 3.0);
  const auto slow = network.exchange(0, 1, 1000);
  const auto normal = network.exchange(1, 0, 1000);
  network.run();
  EXPECT_EQ(network.arrival(slow), nanoseconds(600 + 10'000 + 3000));
  EXPECT_EQ(network.arrival(normal), nanoseconds(11'200));
}

TEST(Sim, CountsWhatWasSent) {
  Network network(round_numbers(2));
  network.exchange(0, 1, 1000);
  network.exchange(0, 1, 20'000);
  network.run();
  EXPECT_EQ(network.world->counters(Rank(0)).messages, 2u);
  EXPECT_EQ(network.world->counters(Rank(0)).bytes, 21'000u);
  EXPECT_EQ(network.world->counters(Rank(1)).messages, 0u);
}

/// Arrival times of an all-to-all under jitter.
std::vector<nanoseconds> arrivals(std::uint64_t seed) {
  Options options = round_numbers(8, 2);
  options.jitter = microseconds(50);
  options.reorder = true;
  options.seed = seed;
  Network network(options);
  for (int from = 0; from < 8; ++from) {
    for (int to = 0; to < 8; ++to) network.exchange(from, to, static_cast<std::size_t>(from * 3000 + to));
  }
  network.run();
  std::vector<nanoseconds> result;
  for (std::size_t i = 0; i < network.messages.size(); ++i) result.push_back(network.arrival(i));
  return result;
}

TEST(Sim, SameSeedSameRun) {
  const auto once = arrivals(1);
  EXPECT_EQ(std::count(once.begin(), once.end(), nanoseconds(-1)), 0);
  EXPECT_EQ(once, arrivals(1));
  EXPECT_NE(once, arrivals(2));
}

TEST(Sim, ReorderingOvertakesWithinAPair) {
  const auto in_order = [](bool reorder) {
    Options options = round_numbers(2);
    options.jitter = microseconds(500);
    options.reorder = reorder;
    Network network(options);
    for (int i = 0; i < 50; ++i) network.exchange(0, 1, 10);
    network.run();
    std::vector<nanoseconds> at;
    for (std::size_t i = 0; i < 50; ++i) at.push_back(network.arrival(i));
    return std::is_sorted(at.begin(), at.end());
  };
  EXPECT_TRUE(in_order(false));
  EXPECT_FALSE(in_order(true));
}

TEST(Sim, KilledRankFailsAtItsTime) {
  Network network(round_numbers(3));
  const auto before = network.exchange(1, 0, 8);
  network.world->kill(Rank(1), Time{} + microseconds(50));
  while (network.world->elapsed() < microseconds(30) && network.world->progress() &&
         !network.received(before).finished()) {
  }
  EXPECT_EQ(network.received(before).state, Completion::State::done);
  Completion waiting;
  EXPECT_TRUE(network.ranks[0]->endpoint(Rank(1)).receive_into({}, Tag::make(9, 0, 0), 1, waiting).ok());
  Completion own;
  EXPECT_TRUE(network.ranks[1]->endpoint(Rank(2)).receive_into({}, Tag::make(9, 0, 0), 1, own).ok());
  network.run();
  EXPECT_EQ(waiting.status.code(), ErrorCode::peer_lost);
  EXPECT_EQ(waiting.status.peer(), 1);
  EXPECT_EQ(own.state, Completion::State::failed);
  EXPECT_EQ(network.world->elapsed(), microseconds(60)) << "peers hear of it one latency later";
}

TEST(Sim, StoppedRankHoldsMessagesForEver) {
  Network network(round_numbers(3));
  network.world->stop(Rank(1), Time{});
  network.world->progress();
  const auto to_stopped = network.exchange(0, 1, 8);
  const auto from_stopped = network.exchange(1, 0, 8);
  const auto large = network.exchange(0, 1, 1 << 20);
  const auto others = network.exchange(0, 2, 8);
  network.run();
  EXPECT_FALSE(network.received(to_stopped).finished());
  EXPECT_FALSE(network.received(from_stopped).finished());
  EXPECT_FALSE(network.sent(large).finished());
  EXPECT_EQ(network.received(others).state, Completion::State::done);
}

TEST(Sim, TimeIsSkippedOnlyWhereNothingHappens) {
  Network network(round_numbers(2));
  const auto message = network.exchange(0, 1, 1000);
  EXPECT_FALSE(network.world->skip_to(Time{} + nanoseconds(11'200)));
  EXPECT_TRUE(network.world->skip_to(Time{} + nanoseconds(11'199)));
  EXPECT_FALSE(network.world->skip_to(Time{}));
  EXPECT_EQ(network.world->elapsed(), nanoseconds(11'199));
  network.run();
  EXPECT_EQ(network.arrival(message), nanoseconds(11'200));
  EXPECT_FALSE(network.world->progress());
  EXPECT_TRUE(network.world->skip_to(Time{} + microseconds(100)));
  EXPECT_EQ(network.world->elapsed(), microseconds(100));
}

TEST(Sim, ThousandsOfRanks) {
  constexpr int kRanks = 4096;
  Network network(round_numbers(kRanks));
  for (int rank = 0; rank < kRanks; ++rank) network.exchange(rank, (rank + 1) % kRanks, 8);
  while (network.world->progress()) {
  }
  EXPECT_EQ(network.world->elapsed(), nanoseconds(200 + 10'000 + 8));
  EXPECT_TRUE(std::all_of(network.messages.begin(), network.messages.end(), [](const auto& message) {
    return message->received.state == Completion::State::done;
  }));
}

TEST(Sim, RefusesWhatCannotBe) {
  EXPECT_THROW((void)make_world(round_numbers(0)), Error);
  EXPECT_THROW((void)make_world(round_numbers(2, 0)), Error);
  Options options = round_numbers(2);
  options.bandwidth = 0;
  EXPECT_THROW((void)make_world(options), Error);
  const auto world = make_world(round_numbers(2));
  EXPECT_THROW((void)create(world, Rank(2)), Error);
  EXPECT_THROW(world->slow(Rank(0), 0.0), Error);
  EXPECT_THROW(world->kill(Rank(-1), Time{}), Error);
  const auto first = create(world, Rank(0));
  EXPECT_THROW((void)create(world, Rank(0)), Error);
}

}  // namespace
}  // namespace ucxring::sim
