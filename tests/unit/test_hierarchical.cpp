// The algorithms over hosts, proved by symbolic execution on many layouts, and what they send between hosts.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <set>

#include "collectives/algorithms/host_map.hpp"
#include "collectives/symbolic/problem.hpp"
#include "collectives/validate.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/schedules.hpp"

namespace ucxring::testing {
namespace {

GroupShape shape_of(const Layout& layout, int rank = 0) {
  return {Rank(rank), static_cast<int>(layout.size()), Rank(0), layout};
}

/// The algorithms that only groups with a hierarchy have.
std::vector<Algorithm> hierarchical_algorithms() {
  std::vector<Algorithm> found;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.supports({Rank(0), 8})) found.push_back(algorithm);
  }
  return found;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all{{0, 0, 1},          {0, 1, 1},          {0, 1, 0},
                          {0, 1, 0, 1},       {0, 0, 1, 1},       {0, 0, 1, 1, 1, 2},
                          {0, 0, 0, 0, 1, 2}, {0, 1, 2, 2, 2, 2}, {0, 0, 0, 0, 1, 1, 1, 1},
                          {0, 1, 2, 0, 1, 2}, {0, 0, 1, 1, 2, 2}, {0, 1, 2, 3, 4, 4, 3, 2, 1, 0}};
  for (int world_size = 3; world_size <= 24; ++world_size) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      Layout layout = random_layout(world_size, seed);
      if (has_hierarchy(shape_of(layout))) all.push_back(std::move(layout));
    }
  }
  return all;
}

ScheduleCost expect_valid(const Algorithm& algorithm, const Layout& layout, Rank root = Rank(0)) {
  const auto schedules = schedules_of(algorithm, static_cast<int>(layout.size()), root, layout);
  const Validation validation = validate(schedules, algorithm.collective, root, parts_of(algorithm));
  EXPECT_TRUE(validation.status.ok()) << algorithm.name << " on hosts " << describe(layout) << ", root "
                                      << root.value << ": " << validation.status.message();
  return validation.cost;
}

/// Bytes, as multiples of the vector's n, that cross the network.
struct Traffic {
  std::vector<double> out;  // by host
  std::vector<double> in;
};

Traffic traffic_of(Collective collective, std::string_view name, const Layout& layout, Rank root = Rank(0)) {
  const Algorithm* algorithm = find_algorithm(collective, name);
  const GroupShape shape = shape_of(layout);
  const auto schedules = schedules_of(*algorithm, shape.world_size, root, layout);
  const symbolic::Problem problem{schedules, collective, root};
  const auto hosts = static_cast<std::size_t>(shape.host_count());
  Traffic traffic{std::vector<double>(hosts), std::vector<double>(hosts)};
  for (int rank = 0; rank < shape.world_size; ++rank) {
    for (const Step& step : problem.of(rank).steps) {
      const int from = shape.host_of(Rank(rank));
      if (step.action != Action::send || shape.host_of(Rank(step.peer)) == from) continue;
      traffic.out[static_cast<std::size_t>(from)] += problem.bytes_of(step.source);
      traffic.in[static_cast<std::size_t>(shape.host_of(Rank(step.peer)))] += problem.bytes_of(step.source);
    }
  }
  return traffic;
}

/// Calls `expect(traffic, layout, host)` for every host of every layout.
void for_each_host(Collective collective, std::string_view name,
                   const std::function<void(double out, double in, const HostMap& map, int host)>& expect) {
  for (const Layout& layout : layouts()) {
    const HostMap map(shape_of(layout));
    const Traffic traffic = traffic_of(collective, name, layout);
    for (int host = 0; host < map.hosts(); ++host) {
      const auto index = static_cast<std::size_t>(host);
      SCOPED_TRACE(describe(layout) + ", host " + std::to_string(host));
      expect(traffic.out[index], traffic.in[index], map, host);
    }
  }
}

class EveryHierarchicalAlgorithm : public ::testing::TestWithParam<Algorithm> {};

TEST_P(EveryHierarchicalAlgorithm, IsRightOnManyLayouts) {
  for (const Layout& layout : layouts()) {
    const int last = is_rooted(GetParam().collective) ? static_cast<int>(layout.size()) - 1 : 0;
    for (const int root : std::set<int>{0, last / 2, last}) expect_valid(GetParam(), layout, Rank(root));
    if (HasFailure()) return;
  }
}

TEST_P(EveryHierarchicalAlgorithm, IsRightForLargeWorlds) {
  const bool few_steps = GetParam().build(shape_of(even_layout(64, 8), 5)).steps.size() < 32;
  for (const int world_size : {64, 200, 1024}) {
    if (world_size > 200 && !few_steps) continue;
    for (const int per_host : {2, 8, 24}) expect_valid(GetParam(), even_layout(world_size, per_host));
    if (HasFailure()) return;
  }
}

TEST_P(EveryHierarchicalAlgorithm, IsForHierarchiesOnly) {
  EXPECT_FALSE(GetParam().supports(shape_of({0, 0, 0, 0}))) << "one host";
  EXPECT_FALSE(GetParam().supports(shape_of({0, 1, 2, 3}))) << "one rank on each host";
  EXPECT_FALSE(GetParam().supports({Rank(0), 4}));
  EXPECT_TRUE(GetParam().supports(shape_of({0, 1, 1})));
  EXPECT_TRUE(GetParam().supports(shape_of({0, 1, 0, 1})));
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryHierarchicalAlgorithm, ::testing::ValuesIn(hierarchical_algorithms()),
                         [](const auto& test) {
                           return std::string(to_string(test.param.collective)) + "_" +
                                  std::string(test.param.name);
                         });

/// Where each part has one target, it crosses the network at most once in any case.
TEST(Hierarchical, EveryCollectiveHasOneThatItSavesBytes) {
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const bool one_target = collective == Collective::gather || collective == Collective::scatter ||
                            collective == Collective::all_to_all;
    EXPECT_EQ(find_algorithm(collective, "hierarchical") != nullptr, !one_target) << to_string(collective);
  }
}

TEST(NetworkTraffic, AllReduceIsTheLeastPossible) {
  for_each_host(Collective::all_reduce, "hierarchical", [](double out, double in, const HostMap& map, int) {
    const double least = 2.0 * (map.hosts() - 1) / map.hosts();
    EXPECT_NEAR(out, least, 1e-9);
    EXPECT_NEAR(in, least, 1e-9);
  });
}

TEST(NetworkTraffic, SmallAllReduceSendsOneVectorARound) {
  for_each_host(
      Collective::all_reduce, "hierarchical_small", [](double out, double in, const HostMap& map, int) {
        const auto hosts = static_cast<unsigned>(map.hosts());
        const int most = std::countr_zero(std::bit_floor(hosts)) + (std::has_single_bit(hosts) ? 0 : 1);
        EXPECT_LE(out, most);
        EXPECT_LE(in, most);
      });
}

TEST(NetworkTraffic, BroadcastEntersEachHostOnce) {
  for (const char* name : {"hierarchical", "hierarchical_small"}) {
    for_each_host(Collective::broadcast, name, [&](double out, double in, const HostMap& map, int host) {
      EXPECT_EQ(in, host == map.host_of(Rank(0)) ? 0 : 1);
      const double most = name == std::string_view("hierarchical")
                              ? 1
                              : std::bit_width(static_cast<unsigned>(map.hosts() - 1));
      EXPECT_LE(out, most);
    });
  }
}

TEST(NetworkTraffic, AllGatherEntersEachHostOnce) {
  for_each_host(Collective::all_gather, "hierarchical", [](double, double in, const HostMap& map, int host) {
    const double elsewhere =
        static_cast<double>(map.elsewhere(1).size() + map.ranks(map.own()).size() - map.ranks(host).size());
    EXPECT_NEAR(in, elsewhere / static_cast<double>(map.elsewhere(1).size() + map.ranks(map.own()).size()),
                1e-9);
  });
}

TEST(NetworkTraffic, ReduceScatterLeavesEachHostOnce) {
  for_each_host(
      Collective::reduce_scatter, "hierarchical", [](double out, double, const HostMap& map, int host) {
        const double all = static_cast<double>(map.elsewhere(1).size() + map.ranks(map.own()).size());
        EXPECT_NEAR(out, (all - static_cast<double>(map.ranks(host).size())) / all, 1e-9);
      });
}

TEST(HierarchicalCosts, RoundsOnFourHostsOfFour) {
  const Layout layout = even_layout(16, 4);
  const auto rounds = [&](Collective collective, std::string_view name) {
    return expect_valid(*find_algorithm(collective, name), layout).rounds;
  };
  EXPECT_EQ(rounds(Collective::all_reduce, "hierarchical"), 8);
  EXPECT_EQ(rounds(Collective::all_reduce, "hierarchical_small"), 4);
  EXPECT_EQ(rounds(Collective::broadcast, "hierarchical"), 4);
  EXPECT_EQ(rounds(Collective::broadcast, "hierarchical_small"), 3);
  EXPECT_EQ(rounds(Collective::all_gather, "hierarchical"), 2);
  EXPECT_EQ(rounds(Collective::reduce_scatter, "hierarchical"), 2);
  EXPECT_EQ(rounds(Collective::barrier, "hierarchical"), 4);
}

TEST(HostMap, KnowsWhoSharesAHost) {
  const Layout layout{0, 1, 0, 2, 1, 0};
  const HostMap map(shape_of(layout, 4));
  EXPECT_EQ(map.hosts(), 3);
  EXPECT_EQ(map.own(), 1);
  EXPECT_EQ(map.fewest(), 1);
  const auto first = map.ranks(3);  // around the ring of hosts
  EXPECT_EQ(std::vector<Rank>(first.begin(), first.end()), (std::vector<Rank>{Rank(0), Rank(2), Rank(5)}));
  EXPECT_EQ(map.index_of(Rank(5)), 2);
  EXPECT_EQ(map.carrier(Rank(5), 1), Rank(1));
  EXPECT_EQ(map.carrier(Rank(4), 0), Rank(2));
  EXPECT_EQ(map.leaders(), (std::vector<Rank>{Rank(0), Rank(1), Rank(3)}));
  EXPECT_EQ(map.elsewhere(1), (std::vector<Rank>{Rank(3), Rank(0), Rank(2), Rank(5)}));
  EXPECT_EQ(map.elsewhere(-1), (std::vector<Rank>{Rank(0), Rank(2), Rank(5), Rank(3)}));
}

TEST(HostMap, WithoutALayoutEveryRankIsAHost) {
  const HostMap map({Rank(2), 3});
  EXPECT_EQ(map.hosts(), 3);
  EXPECT_EQ(map.own(), 2);
  EXPECT_EQ(map.ranks(2).size(), 1u);
}

}  // namespace
}  // namespace ucxring::testing
