// The probe over loopback: ranks as threads, each with a context of its own.
#include "collectives/probe.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "transport/loopback/loopback.hpp"

namespace ucxring {
namespace {

using namespace std::chrono_literals;

const auto kUnguarded = [](const std::function<void()>& drive) { drive(); };

/// However busy the machine is.
constexpr ProbePatience kPatient{60s, 60s, 60s};

/// What each rank got from one agreement, and how long rank 0 took.
struct Outcome {
  std::vector<CostParameters> parameters;
  Duration took{};
};

/// Ranks that are in `absent` do not answer, but take what rank 0 publishes.
Outcome agree(const std::vector<int>& hosts, const std::shared_ptr<Store>& store, ProbeCache& cache,
              bool measures = true, int absent = -1, const ProbePatience& patience = kPatient) {
  const int world_size = static_cast<int>(hosts.size());
  const auto hub = loopback::make_hub(world_size, hosts);
  Outcome outcome{std::vector<CostParameters>(hosts.size()), {}};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto begin = std::chrono::steady_clock::now();
      std::unique_ptr<Probe> probe;  // ends after the transport
      const auto transport = loopback::create(hub, Rank(rank));
      probe = std::make_unique<Probe>(*transport, kUnguarded, cache, patience);
      auto& mine = outcome.parameters[static_cast<std::size_t>(rank)];
      if (rank == absent) {
        const auto text = store->get("tuner/1/parameters", 60s);
        mine = CostParameters::decode({reinterpret_cast<const char*>(text.data()), text.size()});
      } else {
        mine = probe->agree(*store, CostParameters{}, measures, 60s);
      }
      if (rank == 0) outcome.took = std::chrono::steady_clock::now() - begin;
    });
  }
  for (auto& thread : threads) thread.join();
  return outcome;
}

void expect_equal(const Outcome& outcome) {
  for (const auto& parameters : outcome.parameters) EXPECT_EQ(parameters, outcome.parameters[0]);
}

TEST(Probe, AllRanksUseWhatRankZeroMeasured) {
  ProbeCache cache;
  const auto outcome = agree({0, 0, 1, 1, 2}, make_memory_store(), cache);
  expect_equal(outcome);
  const auto near = cache.find("loopback", ProbeCache::Link::near);
  const auto far = cache.find("loopback", ProbeCache::Link::far);
  ASSERT_TRUE(near && far);
  EXPECT_GT(near->latency_ns, 0);
  EXPECT_GT(far->bytes_per_us, 0);
  EXPECT_EQ(outcome.parameters[0].near, refined({}, near, far, 0).near);
  EXPECT_EQ(outcome.parameters[0].far, refined({}, near, far, 0).far);
  EXPECT_GT(outcome.parameters[0].cores_per_host, 0);
}

TEST(Probe, MeasuresOnlyLinksThatExist) {
  ProbeCache near_only;
  expect_equal(agree({0, 0, 0}, make_memory_store(), near_only));
  EXPECT_TRUE(near_only.find("loopback", ProbeCache::Link::near));
  EXPECT_FALSE(near_only.find("loopback", ProbeCache::Link::far));
  ProbeCache far_only;
  const auto outcome = agree({0, 1}, make_memory_store(), far_only);
  EXPECT_FALSE(far_only.find("loopback", ProbeCache::Link::near));
  EXPECT_TRUE(far_only.find("loopback", ProbeCache::Link::far));
  EXPECT_EQ(outcome.parameters[1].near, CostParameters{}.near);
}

TEST(Probe, ALaterGroupTakesWhatIsKnown) {
  ProbeCache cache;
  const LinkMeasurement known{.latency_ns = 1'234, .bytes_per_us = 2'345};
  cache.keep("loopback", ProbeCache::Link::near, known);
  const auto outcome = agree({0, 0}, make_memory_store(), cache);
  expect_equal(outcome);
  EXPECT_EQ(outcome.parameters[0].near, refined({}, known, {}, 0).near);
}

TEST(Probe, GroupsAfterEachOtherUseOneStore) {
  const auto store = make_memory_store();
  ProbeCache cache;
  expect_equal(agree({0, 1}, store, cache));
  cache.keep("loopback", ProbeCache::Link::far, {.latency_ns = 50'000, .bytes_per_us = 333});
  const auto second = agree({0, 1}, store, cache);
  expect_equal(second);
  EXPECT_EQ(second.parameters[1].far.wire_bytes_per_us, 333);
}

TEST(Probe, SwitchedOffItLeavesTheDefaults) {
  ProbeCache cache;
  const auto outcome = agree({0, 1}, make_memory_store(), cache, false);
  expect_equal(outcome);
  EXPECT_FALSE(cache.find("loopback", ProbeCache::Link::far));
  CostParameters defaults;
  defaults.cores_per_host = outcome.parameters[0].cores_per_host;
  EXPECT_EQ(outcome.parameters[0], defaults);
}

TEST(Probe, APeerThatDoesNotAnswerLeavesTheDefaults) {
  ProbeCache cache;
  const auto outcome = agree({0, 1, 2}, make_memory_store(), cache, true, 1, {100ms, 100ms, 100ms});
  expect_equal(outcome);
  EXPECT_EQ(outcome.parameters[0].far, CostParameters{}.far);
  EXPECT_LT(outcome.took, 20s);
}

TEST(Probe, AGroupOfOneAsksNobody) {
  ProbeCache cache;
  EXPECT_EQ(agree({0}, make_memory_store(), cache).parameters[0], CostParameters{});
}

TEST(Probe, AStrangeVersionIsRefused) {
  const auto store = make_memory_store();
  const auto bytes = std::as_bytes(std::span("nonsense", 8));
  store->set("tuner/1/partners", {});
  store->set("tuner/1/parameters", {bytes.begin(), bytes.end()});
  const auto hub = loopback::make_hub(2, {0, 1});
  const auto transport = loopback::create(hub, Rank(1));
  ProbeCache cache;
  Probe probe(*transport, kUnguarded, cache);
  EXPECT_THROW((void)probe.agree(*store, {}, true, 1s), Error);
}

TEST(Refined, FollowsMeasurementsAsFarAsTheyAreTrusted) {
  const CostParameters defaults;
  // As assumed: nothing changes.
  const LinkMeasurement usual{defaults.near.latency_ns + 2 * defaults.near.overhead_ns, 13'333};
  EXPECT_NEAR(static_cast<double>(refined(defaults, usual, {}, 0).near.send_bytes_per_us), 40'000, 10);
  EXPECT_EQ(refined(defaults, usual, {}, 0).near.latency_ns, defaults.near.latency_ns);
  // Twice as slow in everything.
  const LinkMeasurement slow{2 * usual.latency_ns, usual.bytes_per_us / 2};
  EXPECT_EQ(refined(defaults, slow, {}, 0).near.overhead_ns, 2 * defaults.near.overhead_ns);
  EXPECT_NEAR(static_cast<double>(refined(defaults, slow, {}, 0).near.receive_bytes_per_us), 10'000, 10);
  // Absurd: a factor of 8, of 32 for networks.
  const LinkMeasurement absurd{1'000'000'000, 1};
  const CostParameters clamped = refined(defaults, absurd, absurd, 1);
  EXPECT_EQ(clamped.near.latency_ns, 8 * defaults.near.latency_ns);
  EXPECT_EQ(clamped.near.send_bytes_per_us, defaults.near.send_bytes_per_us / 8);
  EXPECT_EQ(clamped.far.latency_ns, 8 * defaults.far.latency_ns);
  EXPECT_EQ(clamped.far.wire_bytes_per_us, defaults.far.wire_bytes_per_us / 32);
  EXPECT_EQ(clamped.far.send_bytes_per_us, defaults.far.send_bytes_per_us);
  EXPECT_EQ(clamped.reduce_bytes_per_us, defaults.reduce_bytes_per_us / 8);
  // A fast network has cores that keep up.
  const CostParameters fast = refined(defaults, {}, LinkMeasurement{5'000, 20'000}, 0);
  EXPECT_EQ(fast.far.wire_bytes_per_us, 20'000);
  EXPECT_EQ(fast.far.send_bytes_per_us, 40'000);
  EXPECT_EQ(fast.near, defaults.near);
}

}  // namespace
}  // namespace ucxring
