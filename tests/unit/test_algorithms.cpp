// Every algorithm of the registry, proved by symbolic execution, and its cost against the textbook.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <string>

#include "collectives/validate.hpp"
#include "tests/support/schedules.hpp"

namespace ucxring {
namespace {

using testing::parts_of;
using testing::schedules_of;

std::string title(const Algorithm& algorithm) {
  return std::string(to_string(algorithm.collective)) + "_" + std::string(algorithm.name);
}

ScheduleCost expect_valid(const Algorithm& algorithm, int world_size, Rank root = Rank(0)) {
  const auto schedules = schedules_of(algorithm, world_size, root);
  const Validation validation = validate(schedules, algorithm.collective, root, parts_of(algorithm));
  EXPECT_TRUE(validation.status.ok()) << title(algorithm) << ", " << world_size << " ranks, root "
                                      << root.value << ": " << validation.status.message();
  return validation.cost;
}

std::vector<int> roots(Collective collective, int world_size) {
  if (!is_rooted(collective)) return {0};
  std::set<int> chosen{0, 1, world_size / 2, world_size - 1};
  for (int root = 0; root < std::min(world_size, 24); ++root) chosen.insert(root);
  return {chosen.begin(), chosen.end()};
}

class EveryAlgorithm : public ::testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, IsRightFor2To64Ranks) {
  for (int world_size = 2; world_size <= 64; ++world_size) {
    if (!GetParam().supports({Rank(0), world_size})) continue;
    for (const int root : roots(GetParam().collective, world_size)) {
      expect_valid(GetParam(), world_size, Rank(root));
      if (HasFailure()) return;
    }
  }
}

TEST_P(EveryAlgorithm, IsRightForLargeWorlds) {
  // All pairs, and rings of p chunks, have p² steps: their worlds are smaller.
  const std::size_t steps_of_64 =
      GetParam().build({.rank = Rank(5), .world_size = 64, .root = Rank(0)}).steps.size();
  const bool few_steps = steps_of_64 < 32;
  for (const int world_size : {127, 200, 257, 1000, 1024, 4095, 4096}) {
    if (!GetParam().supports({Rank(0), world_size}) || (!few_steps && world_size > 257)) continue;
    expect_valid(GetParam(), world_size, Rank(world_size / 3));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithm,
                         ::testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& test) { return title(test.param); });

int log2_floor(int p) { return std::countr_zero(std::bit_floor(static_cast<unsigned>(p))); }
int log2_ceiling(int p) { return std::countr_zero(std::bit_ceil(static_cast<unsigned>(p))); }

/// The least that any algorithm can do, in rounds and in bytes through one rank.
TEST(Costs, NoAlgorithmBeatsTheLowerBounds) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int p : {2, 3, 7, 8, 13, 32}) {
      const ScheduleCost cost = expect_valid(algorithm, p);
      const double share = static_cast<double>(p - 1) / p;
      double sent = 0;
      if (algorithm.collective == Collective::all_reduce) sent = 2 * share;
      if (algorithm.collective == Collective::broadcast || algorithm.collective == Collective::reduce)
        sent = 1;
      if (has_chunk_per_rank(algorithm.collective)) sent = share;
      double received = sent;
      // One rank has it all, the others a part each.
      if (algorithm.collective == Collective::gather) sent = 1.0 / p;
      if (algorithm.collective == Collective::scatter) received = 1.0 / p;
      EXPECT_GE(cost.bytes_received, received - 1e-9) << title(algorithm) << " p=" << p;
      EXPECT_GE(cost.bytes_sent, sent - 1e-9) << title(algorithm) << " p=" << p;
      EXPECT_GE(cost.rounds, 1) << title(algorithm) << " p=" << p;
    }
  }
}

struct Textbook {
  int rounds;
  double sent;
  double received;
  double reduced;
};

void expect_textbook(Collective collective, std::string_view name,
                     const std::function<Textbook(int)>& cost_for) {
  const Algorithm* algorithm = find_algorithm(collective, name);
  ASSERT_NE(algorithm, nullptr);
  for (const int p : {2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 31, 32, 33, 64}) {
    const ScheduleCost cost = expect_valid(*algorithm, p);
    const Textbook expected = cost_for(p);
    EXPECT_EQ(cost.rounds, expected.rounds) << title(*algorithm) << " p=" << p;
    EXPECT_NEAR(cost.bytes_sent, expected.sent, 1e-9) << title(*algorithm) << " p=" << p;
    EXPECT_NEAR(cost.bytes_received, expected.received, 1e-9) << title(*algorithm) << " p=" << p;
    EXPECT_NEAR(cost.bytes_reduced, expected.reduced, 1e-9) << title(*algorithm) << " p=" << p;
  }
}

double share(int p) { return static_cast<double>(p - 1) / p; }

TEST(Costs, Ring) {
  expect_textbook(Collective::all_reduce, "ring", [](int p) {
    return Textbook{2 * (p - 1), 2 * share(p), 2 * share(p), share(p)};
  });
  expect_textbook(Collective::all_gather, "ring", [](int p) {
    return Textbook{p - 1, share(p), share(p), 0};
  });
  expect_textbook(Collective::reduce_scatter, "ring", [](int p) {
    return Textbook{p - 1, share(p), share(p), share(p)};
  });
}

TEST(Costs, Direct) {
  expect_textbook(Collective::all_reduce, "direct", [](int p) {
    return Textbook{1, p - 1.0, p - 1.0, p - 1.0};
  });
  expect_textbook(Collective::all_reduce, "direct_two_shot", [](int p) {
    return Textbook{2, 2 * share(p), 2 * share(p), share(p)};
  });
  expect_textbook(Collective::all_gather, "direct", [](int p) { return Textbook{1, share(p), share(p), 0}; });
  expect_textbook(Collective::reduce_scatter, "direct", [](int p) {
    return Textbook{1, share(p), share(p), share(p)};
  });
}

TEST(Costs, Reduce) {
  expect_textbook(Collective::reduce, "direct", [](int p) { return Textbook{1, 1, p - 1.0, p - 1.0}; });
  expect_textbook(Collective::reduce, "direct_two_shot", [](int p) {
    return Textbook{2, 1, 2 * share(p), share(p)};
  });
  expect_textbook(Collective::reduce, "chain", [](int p) { return Textbook{p - 1, 1, 1, 1}; });
  expect_textbook(Collective::reduce, "binomial", [](int p) {
    const double rounds = log2_ceiling(p);
    return Textbook{log2_floor(p), 1, rounds, rounds};
  });
}

TEST(Costs, GatherAndScatter) {
  expect_textbook(Collective::gather, "direct", [](int p) { return Textbook{1, 1.0 / p, share(p), 0}; });
  expect_textbook(Collective::scatter, "direct", [](int p) { return Textbook{1, share(p), 1.0 / p, 0}; });
  const auto largest_subtree = [](int p) {
    const int half = static_cast<int>(std::bit_ceil(static_cast<unsigned>(p))) / 2;
    return std::max({half / 2, std::min(half, p - half), 1});
  };
  expect_textbook(Collective::gather, "binomial", [&](int p) {
    return Textbook{log2_floor(p), static_cast<double>(largest_subtree(p)) / p, share(p), 0};
  });
  expect_textbook(Collective::scatter, "binomial", [&](int p) {
    return Textbook{log2_floor(p), share(p), static_cast<double>(largest_subtree(p)) / p, 0};
  });
  for (const Collective collective : {Collective::gather, Collective::scatter}) {
    const Algorithm* binomial = find_algorithm(collective, "binomial");
    for (const int p : {2, 3, 8, 33}) {
      EXPECT_EQ(expect_valid(*binomial, p).messages, static_cast<std::size_t>(p - 1));
    }
  }
}

TEST(Costs, AllToAll) {
  expect_textbook(Collective::all_to_all, "direct", [](int p) { return Textbook{1, share(p), share(p), 0}; });
  expect_textbook(Collective::all_to_all, "pairwise", [](int p) {
    return Textbook{p - 1, share(p), share(p), 0};
  });
  expect_textbook(Collective::all_to_all, "bruck", [](int p) {
    double chunks = 0;
    for (int distance = 1; distance < p; ++distance) chunks += std::popcount(static_cast<unsigned>(distance));
    return Textbook{log2_ceiling(p), chunks / p, chunks / p, 0};
  });
}

/// Packing several parts into one message is right only if all have the same size.
TEST(Parts, OnlyMarkedAlgorithmsAreRightForUnevenOnes) {
  for (const Algorithm& algorithm : algorithms()) {
    if (!has_chunk_per_rank(algorithm.collective) || !algorithm.supports({Rank(0), 8})) continue;
    const auto schedules = schedules_of(algorithm, 8);
    EXPECT_EQ(validate(schedules, algorithm.collective).status.ok(), algorithm.uneven) << title(algorithm);
    EXPECT_TRUE(validate(schedules, algorithm.collective, Rank(0), Parts::even).status.ok())
        << title(algorithm);
  }
}

TEST(Costs, RecursiveDoubling) {
  const Algorithm* doubling = find_algorithm(Collective::all_reduce, "recursive_doubling");
  ASSERT_NE(doubling, nullptr);
  for (int p = 2; p <= 64; ++p) {
    const ScheduleCost cost = expect_valid(*doubling, p);
    const bool power = std::has_single_bit(static_cast<unsigned>(p));
    const int exchanges = log2_floor(p);
    // Folding and unfolding take a round each, but not every chain of messages contains both.
    EXPECT_GE(cost.rounds, exchanges + (power ? 0 : 1)) << p;
    EXPECT_LE(cost.rounds, exchanges + (power ? 0 : 2)) << p;
    // An odd rank of a pair takes its partner's vector, and gives it the result, besides the exchanges.
    const int vectors = exchanges + (power ? 0 : 1);
    EXPECT_EQ(cost.bytes_sent, vectors) << p;
    EXPECT_EQ(cost.bytes_received, vectors) << p;
    EXPECT_EQ(cost.bytes_reduced, vectors) << p;
  }
}

TEST(Costs, Tree) {
  const Algorithm* tree = find_algorithm(Collective::all_reduce, "tree");
  ASSERT_NE(tree, nullptr);
  for (int p = 2; p <= 64; ++p) {
    const ScheduleCost cost = expect_valid(*tree, p);
    EXPECT_EQ(cost.rounds, 2 * log2_ceiling(p)) << p;
    EXPECT_LE(cost.bytes_sent, 2) << p;
    EXPECT_LE(cost.bytes_received, 2) << p;
    EXPECT_LE(cost.bytes_reduced, 1) << p;
  }
}

TEST(Costs, Binomial) {
  const Algorithm* binomial = find_algorithm(Collective::broadcast, "binomial");
  ASSERT_NE(binomial, nullptr);
  for (int p = 2; p <= 64; ++p) {
    const ScheduleCost cost = expect_valid(*binomial, p);
    // The chain of messages is as long as the number of rounds only where the deepest place exists.
    EXPECT_LE(cost.rounds, log2_ceiling(p));
    if (std::has_single_bit(static_cast<unsigned>(p))) {
      EXPECT_EQ(cost.rounds, log2_ceiling(p));
    }
    EXPECT_EQ(cost.bytes_sent, log2_ceiling(p));
    EXPECT_EQ(cost.bytes_received, 1);
    EXPECT_EQ(cost.messages, static_cast<std::size_t>(p - 1));
  }
}

TEST(Costs, Chain) {
  expect_textbook(Collective::broadcast, "chain", [](int p) { return Textbook{p - 1, 1, 1, 0}; });
}

TEST(Costs, Dissemination) {
  expect_textbook(Collective::barrier, "dissemination", [](int p) {
    return Textbook{log2_ceiling(p), 0, 0, 0};
  });
}

}  // namespace
}  // namespace ucxring
