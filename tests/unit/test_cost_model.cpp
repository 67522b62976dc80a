#include "collectives/cost_model.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "tests/support/layouts.hpp"
#include "tests/support/schedules.hpp"

namespace ucxring {
namespace {

using namespace std::chrono_literals;
using testing::even_layout;
using testing::schedules_of;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = kKiB * kKiB;

/// A network that costs cores nothing: latency 10 µs, 1 byte per ns.
CostParameters ideal_network() {
  CostParameters parameters;
  parameters.far = {.latency_ns = 10'000, .wire_bytes_per_us = 1'000};
  parameters.near = {};
  parameters.reduce_bytes_per_us = 0;
  return parameters;
}

/// Shared memory in which only copies cost time, 1 byte per ns.
CostParameters copies_only() {
  CostParameters parameters;
  parameters.near = {.send_bytes_per_us = 1'000, .receive_bytes_per_us = 1'000};
  parameters.far = {};
  parameters.reduce_bytes_per_us = 0;
  return parameters;
}

std::vector<Schedule> schedules(Collective collective, std::string_view name, int world_size,
                                std::span<const int> hosts = {}) {
  return schedules_of(*find_algorithm(collective, name), world_size, Rank(0), hosts);
}

Cost predicted(Collective collective, std::string_view name, int world_size, std::size_t bytes,
               const CostParameters& parameters, std::span<const int> hosts = {}, const Config& config = {}) {
  const auto all = schedules(collective, name, world_size, hosts);
  return predict({.schedules = all, .hosts = hosts, .bytes = bytes, .config = config}, parameters);
}

Cost nanoseconds(std::size_t count) { return std::chrono::nanoseconds(count); }

TEST(CostModel, RingIsAsInTheTextbook) {
  for (const int p : {2, 3, 5, 8}) {
    const auto ranks = static_cast<std::size_t>(p);
    const std::size_t chunk = 16 * kKiB;
    const auto expected = 2 * (ranks - 1) * (10us + nanoseconds(chunk));
    EXPECT_EQ(predicted(Collective::all_reduce, "ring", p, ranks * chunk, ideal_network()), expected) << p;
  }
}

TEST(CostModel, RecursiveDoublingIsAsInTheTextbook) {
  for (const unsigned p : {2U, 4U, 8U, 16U}) {
    const auto rounds = std::bit_width(p) - 1;
    const auto expected = static_cast<std::size_t>(rounds) * (10us + nanoseconds(64 * kKiB));
    EXPECT_EQ(predicted(Collective::all_reduce, "recursive_doubling", static_cast<int>(p), 64 * kKiB,
                        ideal_network()),
              expected)
        << p;
  }
}

TEST(CostModel, AHostsInterfaceTakesOneMessageAfterTheOther) {
  // The root sends to three others; its interface is busy three times as long.
  EXPECT_EQ(predicted(Collective::broadcast, "direct", 4, 64 * kKiB, ideal_network()),
            10us + 3 * nanoseconds(64 * kKiB));
  // Three ranks on other hosts, all of whose contributions meet at one interface: those of two hosts wait.
  // And since all send to all, they collide: two messages more than one cost two parts in 32.
  EXPECT_EQ(predicted(Collective::all_gather, "direct", 4, 4 * 16 * kKiB, ideal_network()),
            10us + 3 * nanoseconds(17 * kKiB));
  // No more than one message each way at a time.
  EXPECT_EQ(predicted(Collective::all_gather, "ring", 4, 4 * 16 * kKiB, ideal_network()),
            3 * (10us + nanoseconds(16 * kKiB)));
}

TEST(CostModel, RanksOfAHostShareItsInterface) {
  const std::vector<int> pairs{0, 0, 1, 1};
  // Around the ring 0 → 1 → 2 → 3 → 0 each host sends one message per round, the same as apart.
  const auto together = predicted(Collective::all_gather, "ring", 4, 4 * 16 * kKiB, ideal_network(), pairs);
  EXPECT_LT(together, predicted(Collective::all_gather, "ring", 4, 4 * 16 * kKiB, ideal_network()));
  // With hosts taking turns, every message crosses, two at a time: one round at least needs twice as long.
  const std::vector<int> turns{0, 1, 0, 1};
  EXPECT_GE(predicted(Collective::all_gather, "ring", 4, 4 * 16 * kKiB, ideal_network(), turns),
            3 * (10us + nanoseconds(16 * kKiB)) + nanoseconds(16 * kKiB));
}

TEST(CostModel, PublishesAChunkOnceForAHost) {
  const std::vector<int> one_host(4, 0);
  // One copy by the sender, then three by each receiver, of n bytes.
  EXPECT_EQ(predicted(Collective::all_reduce, "direct", 4, 64 * kKiB, copies_only(), one_host),
            nanoseconds(64 * kKiB) + 3 * nanoseconds(64 * kKiB));
  // Different chunks are copied each: three into the slots, three out.
  EXPECT_EQ(predicted(Collective::reduce_scatter, "direct", 4, 4 * 64 * kKiB, copies_only(), one_host),
            6 * nanoseconds(64 * kKiB));
}

TEST(CostModel, OverheadIsPaidOnBothSides) {
  CostParameters parameters = ideal_network();
  parameters.far.overhead_ns = 3'000;
  parameters.far.send_bytes_per_us = 500;
  parameters.far.receive_bytes_per_us = 250;
  EXPECT_EQ(predicted(Collective::broadcast, "chain", 2, kKiB, parameters),
            3us + nanoseconds(2 * kKiB) + 10us + nanoseconds(375 + kKiB) + 3us + nanoseconds(4 * kKiB));
}

TEST(CostModel, ReductionsCostMoreBeyondTheCache) {
  CostParameters parameters = ideal_network();
  const auto reduction = [&](std::size_t bytes) {
    parameters.reduce_bytes_per_us = 0;
    const Cost without = predicted(Collective::all_reduce, "direct", 2, bytes, parameters);
    parameters.reduce_bytes_per_us = 1'000;
    return predicted(Collective::all_reduce, "direct", 2, bytes, parameters) - without;
  };
  EXPECT_EQ(reduction(64 * kKiB), nanoseconds(64 * kKiB));
  EXPECT_GT(reduction(4 * kMiB), nanoseconds(4 * kMiB));
}

TEST(CostModel, ManyPartnersMakeMessagesDearer) {
  CostParameters parameters = ideal_network();
  parameters.far = {.overhead_ns = 1'000};
  // Four partners are few: as many messages each way. 36 make each twice as dear.
  EXPECT_EQ(predicted(Collective::all_gather, "direct", 5, 0, parameters), 2 * 4 * 1us);
  EXPECT_EQ(predicted(Collective::all_gather, "direct", 37, 0, parameters), 2 * 36 * 2us);
}

TEST(CostModel, RanksShareTheCoresOfTheirHost) {
  CostParameters parameters = copies_only();
  const std::vector<int> one_host(4, 0);
  const auto free = predicted(Collective::all_gather, "direct", 4, 64 * kKiB, parameters, one_host);
  parameters.cores_per_host = 4;
  EXPECT_EQ(predicted(Collective::all_gather, "direct", 4, 64 * kKiB, parameters, one_host), free);
  parameters.cores_per_host = 2;
  constexpr Cost kTurns = std::chrono::microseconds(2);  // until a message's receiver has its turn
  EXPECT_EQ(predicted(Collective::all_gather, "direct", 4, 64 * kKiB, parameters, one_host),
            2 * free + kTurns);
}

TEST(CostModel, FewRoundsCountWhereRanksShareCores) {
  CostParameters parameters;
  parameters.near.latency_ns = 100;
  parameters.near.overhead_ns = 200;
  const std::vector<int> one_host(8, 0);
  const auto faster = [&](std::string_view first, std::string_view second) {
    return predicted(Collective::all_reduce, first, 8, 8, parameters, one_host) <
           predicted(Collective::all_reduce, second, 8, 8, parameters, one_host);
  };
  EXPECT_TRUE(faster("recursive_doubling", "direct"));
  parameters.cores_per_host = 2;
  EXPECT_TRUE(faster("direct", "recursive_doubling"));
}

TEST(CostModel, LanesFollowAtTheBusiestResource) {
  Config config;
  config.slice_bytes = 64 * kKiB;
  config.lanes = 16;
  const auto slice = nanoseconds(64 * kKiB);
  // Through a chain the interfaces pass one slice after the other: two hops, then one slice each.
  EXPECT_EQ(predicted(Collective::broadcast, "chain", 3, 64 * kKiB, ideal_network(), {}, config),
            2 * (10us + slice));
  EXPECT_EQ(predicted(Collective::broadcast, "chain", 3, 10 * 64 * kKiB, ideal_network(), {}, config),
            2 * (10us + slice) + 9 * slice);
}

TEST(CostModel, AShortWindowLeavesTheLinkIdle) {
  Config config;
  config.slice_bytes = 4 * kKiB;
  config.lanes = 1;
  const auto round = 10us + nanoseconds(4 * kKiB);
  EXPECT_EQ(predicted(Collective::all_reduce, "direct", 2, 40 * kKiB, ideal_network(), {}, config),
            10 * round);
}

TEST(CostModel, MoreBytesNeverTakeLess) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const auto& hosts :
         {std::vector<int>{0, 1, 2, 3, 4, 5}, std::vector<int>(6, 0), even_layout(6, 2)}) {
      const GroupShape shape{Rank(0), 6, Rank(0), hosts};
      if (!algorithm.supports(shape)) continue;
      const auto all = schedules_of(algorithm, 6, Rank(0), hosts);
      Cost before{0};
      for (std::size_t bytes = 1; bytes <= std::size_t{1} << 30U; bytes *= 2) {
        const Cost now = predict({.schedules = all, .hosts = hosts, .bytes = bytes}, CostParameters{});
        EXPECT_GE(now, before) << to_string(algorithm.collective) << " " << algorithm.name << " " << bytes;
        EXPECT_GT(now, Cost{0});
        before = now;
      }
    }
  }
}

TEST(CostModel, SchedulesThatWaitForEachOtherAreRefused) {
  ScheduleBuilder builder(1, 1);
  builder.receive(Rank(1), output(0)).send(Rank(1), output(0));
  ScheduleBuilder other(1, 1);
  other.receive(Rank(0), output(0)).send(Rank(0), output(0));
  const std::vector<Schedule> both{std::move(builder).build(), std::move(other).build()};
  EXPECT_THROW((void)predict({.schedules = both, .bytes = 8}, CostParameters{}), Error);
  ScheduleBuilder alone(1, 1);
  alone.receive(Rank(1), output(0));
  const std::vector<Schedule> unsent{std::move(alone).build(), Schedule{}};
  EXPECT_THROW((void)predict({.schedules = unsent, .bytes = 8}, CostParameters{}), Error);
}

TEST(CostParameters, TravelAsText) {
  CostParameters parameters;
  parameters.near.latency_ns = 1;
  parameters.far.wire_bytes_per_us = 7;
  parameters.cores_per_host = 3;
  EXPECT_EQ(CostParameters::decode(parameters.encode()), parameters);
  const std::string good = CostParameters{}.encode();
  for (const std::string& bad : {std::string(), std::string("costs1"), good + " 1", good + "x",
                                 good.substr(0, good.rfind(' ')), "x" + good, std::string("costs1 -1")}) {
    EXPECT_THROW((void)CostParameters::decode(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace ucxring
