#include "collectives/tuner.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "collectives/tuning_report.hpp"
#include "tests/support/layouts.hpp"

namespace ucxring {
namespace {

using testing::even_layout;
using testing::Layout;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = kKiB * kKiB;

Layout apart(int world_size) { return even_layout(world_size, 1); }
Layout together(int world_size) { return even_layout(world_size, world_size); }

Config preferring(std::string_view preference) {
  Config config;
  config.algorithm = preference;
  return config;
}

std::string_view choice(const Layout& hosts, Collective collective, std::size_t bytes,
                        const Config& config = {}) {
  return Tuner(hosts, config, CostParameters{}).choose(collective, bytes).name;
}

std::string complaint(const Config& config) {
  try {
    check_choice(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

TEST(Tuner, ChoosesForEveryCollectiveSizeAndWorld) {
  for (const Layout& hosts : {apart(2), apart(3), apart(9), apart(64), together(5), even_layout(6, 4)}) {
    Tuner tuner(hosts, Config{}, CostParameters{});
    for (int i = 0; i < kCollectives; ++i) {
      const auto collective = static_cast<Collective>(i);
      for (const std::size_t bytes :
           {std::size_t{0}, std::size_t{1}, 4 * kKiB, kMiB + 1, std::size_t{1} << 50U}) {
        const Algorithm& chosen = tuner.choose(collective, bytes);
        EXPECT_EQ(chosen.collective, collective);
        EXPECT_TRUE(chosen.supports({Rank(0), tuner.world_size(), Rank(0), hosts}));
        EXPECT_EQ(&chosen, &tuner.choose(collective, bytes));
      }
    }
  }
}

TEST(Tuner, BetweenTwoHostsOneRoundIsBest) {
  for (const std::size_t bytes : {std::size_t{8}, 64 * kKiB, kMiB}) {
    EXPECT_EQ(choice(apart(2), Collective::all_reduce, bytes), "direct") << bytes;
  }
}

TEST(Tuner, BetweenHostsRoundsCountForSmallOperationsAndBytesForLargeOnes) {
  EXPECT_EQ(choice(apart(16), Collective::all_reduce, 8), "recursive_doubling");
  EXPECT_EQ(choice(apart(64), Collective::all_reduce, 4 * kKiB), "recursive_doubling");
  EXPECT_EQ(choice(apart(4), Collective::all_reduce, 256 * kKiB), "direct_two_shot");
  for (const int world_size : {3, 8, 16, 64}) {
    EXPECT_EQ(choice(apart(world_size), Collective::all_reduce, 256 * kMiB), "ring") << world_size;
  }
  EXPECT_EQ(choice(apart(32), Collective::broadcast, 8), "binomial");
  EXPECT_EQ(choice(apart(8), Collective::broadcast, 64 * kMiB), "chain");
  EXPECT_EQ(choice(apart(4), Collective::all_gather, kKiB), "direct");
  EXPECT_EQ(choice(apart(8), Collective::reduce_scatter, kKiB), "direct");
  EXPECT_EQ(choice(apart(16), Collective::barrier, 0), "dissemination");
}

TEST(Tuner, InsideAHostEverybodyReadsWhatIsPublished) {
  for (const int world_size : {2, 3, 4, 8}) {
    const Layout hosts = together(world_size);
    EXPECT_EQ(choice(hosts, Collective::all_reduce, 8), "direct") << world_size;
    EXPECT_EQ(choice(hosts, Collective::all_reduce, 64 * kMiB), "direct_two_shot") << world_size;
    EXPECT_EQ(choice(hosts, Collective::broadcast, 64 * kMiB), "direct") << world_size;
    for (std::size_t bytes = 1; bytes <= 1024 * kMiB; bytes *= 4) {
      EXPECT_NE(choice(hosts, Collective::all_reduce, bytes), "ring") << bytes;
      EXPECT_EQ(choice(hosts, Collective::all_gather, bytes), "direct") << bytes;
      EXPECT_EQ(choice(hosts, Collective::reduce_scatter, bytes), "direct") << bytes;
    }
  }
  EXPECT_EQ(choice(together(2), Collective::all_reduce, 64 * kKiB), "direct");
}

TEST(Tuner, WithSeveralRanksOnSeveralHostsTheNetworkIsCrossedOnce) {
  for (const Layout& hosts : {even_layout(4, 2), even_layout(16, 8), Layout{0, 0, 0, 1, 1}}) {
    EXPECT_EQ(choice(hosts, Collective::all_reduce, 4 * kKiB), "hierarchical_small");
    EXPECT_EQ(choice(hosts, Collective::all_reduce, 16 * kMiB), "hierarchical");
    EXPECT_TRUE(choice(hosts, Collective::broadcast, kMiB).starts_with("hierarchical"));
    EXPECT_EQ(choice(hosts, Collective::all_gather, 16 * kMiB), "hierarchical");
    EXPECT_EQ(choice(hosts, Collective::barrier, 0), "hierarchical");
  }
}

TEST(Tuner, ChoosesWhatItPredictsToBeFastest) {
  const Tuner tuner(even_layout(8, 4), Config{}, CostParameters{});
  const auto candidates = tuner.candidates(Collective::all_reduce, kMiB);
  EXPECT_GE(candidates.size(), 5u);
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    ASSERT_TRUE(candidates[i - 1].cost && candidates[i].cost);
    EXPECT_LE(*candidates[i - 1].cost, *candidates[i].cost);
  }
}

TEST(Tuner, IsAPureFunctionOfSizeClassLayoutAndParameters) {
  const CostParameters agreed = CostParameters::decode(CostParameters{}.encode());
  for (const Layout& hosts : {apart(5), together(4), even_layout(6, 3)}) {
    Tuner one(hosts, Config{}, CostParameters{});
    Tuner other(hosts, Config{}, agreed);
    for (std::size_t bytes = std::size_t{1} << 30U; bytes > 0;
         bytes /= 2) {  // another order: nothing is carried over
      const Algorithm* const chosen = &other.choose(Collective::all_reduce, bytes);
      EXPECT_EQ(chosen, &other.choose(Collective::all_reduce, bytes / 2 + 1));
    }
    for (std::size_t bytes = 1; bytes <= std::size_t{1} << 30U; bytes *= 2) {
      EXPECT_EQ(&one.choose(Collective::all_reduce, bytes), &other.choose(Collective::all_reduce, bytes))
          << bytes;
    }
  }
}

TEST(Tuner, UnevenOperationsNeedAlgorithmsForThem) {
  Tuner tuner(apart(16), Config{}, CostParameters{});
  EXPECT_EQ(tuner.choose_uneven(Collective::gather, {}).name, "direct");
  EXPECT_EQ(tuner.choose_uneven(Collective::all_to_all, {}).name, "pairwise");
  for (std::size_t bytes = 1; bytes < kMiB * kKiB; bytes *= 16) {
    const Algorithm& chosen = tuner.choose_uneven(Collective::all_gather, bytes);
    EXPECT_TRUE(chosen.uneven);
    EXPECT_EQ(&chosen, &tuner.choose(Collective::all_gather, bytes)) << bytes;
  }
  Tuner narrow(apart(16), preferring("all_to_all:bruck"), CostParameters{});
  EXPECT_EQ(narrow.choose(Collective::all_to_all, 8).name, "bruck");
  EXPECT_THROW((void)narrow.choose_uneven(Collective::all_to_all, {}), Error);
}

TEST(Tuner, ParametersDecide) {
  CostParameters slow;
  slow.far.latency_ns = 1;
  slow.far.overhead_ns = 1;
  slow.far.wire_bytes_per_us = 78;
  EXPECT_EQ(choice(apart(8), Collective::all_reduce, 16 * kKiB), "recursive_doubling");
  EXPECT_NE(Tuner(apart(8), Config{}, slow).choose(Collective::all_reduce, 16 * kKiB).name,
            "recursive_doubling");
}

TEST(Tuner, HugeGroupsAreNotWalkedThroughMillionsOfMessages) {
  Tuner tuner(apart(2048), Config{}, CostParameters{});
  const auto candidates = tuner.candidates(Collective::all_gather, kKiB);
  EXPECT_EQ(candidates.front().algorithm->name, "direct");
  EXPECT_FALSE(candidates.front().cost);
  EXPECT_EQ(tuner.choose(Collective::all_gather, 64 * kMiB).name, "ring");
  EXPECT_TRUE(tuner.candidates(Collective::all_reduce, 8).front().cost);
}

TEST(Tuner, OneNameIsForced) {
  for (const Algorithm& algorithm : algorithms()) {
    Layout hosts = even_layout(4, 2);
    if (!algorithm.supports({Rank(0), 4, Rank(0), hosts})) hosts = apart(4);
    const std::string preference =
        std::string(to_string(algorithm.collective)) + ":" + std::string(algorithm.name);
    for (const std::size_t bytes : {std::size_t{0}, kKiB, 64 * kMiB}) {
      EXPECT_EQ(choice(hosts, algorithm.collective, bytes, preferring(preference)), algorithm.name);
    }
  }
}

TEST(Tuner, SeveralNamesAreChosenAmong) {
  const Config config = preferring("all_reduce:ring,recursive_doubling");
  EXPECT_EQ(choice(apart(4), Collective::all_reduce, kKiB, config), "recursive_doubling");
  EXPECT_EQ(choice(apart(4), Collective::all_reduce, 64 * kMiB, config), "ring");
}

TEST(Tuner, ExcludedNamesAreNotChosen) {
  EXPECT_NE(choice(apart(4), Collective::broadcast, 64 * kMiB, preferring("broadcast:^chain")), "chain");
  EXPECT_NE(choice(apart(4), Collective::all_reduce, 64 * kMiB, preferring("^ring")), "ring");
  EXPECT_EQ(choice(apart(4), Collective::barrier, 0, preferring("broadcast:chain")),
            choice(apart(4), Collective::barrier, 0));
}

TEST(Tuner, ThePreferenceMustLeaveSomething) {
  const std::string text = complaint(preferring("barrier:^dissemination,direct,hierarchical"));
  EXPECT_NE(text.find("no algorithm is left for barrier"), std::string::npos) << text;
  EXPECT_EQ(complaint(preferring("all_reduce:hierarchical")),
            "");  // some groups have several hosts, this one has not
  EXPECT_THROW((void)choice(apart(4), Collective::all_reduce, 8, preferring("all_reduce:hierarchical")),
               Error);
  EXPECT_THROW(Tuner(apart(4), preferring("all_reduce:teleport"), CostParameters{}), Error);
}

TEST(Tuner, DeterministicGroupsTakeOneAlgorithmForAllSizes) {
  Config config;
  config.deterministic = true;
  for (const Layout& hosts : {apart(2), apart(8), together(4), even_layout(6, 3)}) {
    for (std::size_t bytes = 1; bytes <= 1024 * kMiB; bytes *= 2) {
      EXPECT_EQ(choice(hosts, Collective::all_reduce, bytes, config), "direct_two_shot");
      EXPECT_EQ(choice(hosts, Collective::reduce_scatter, bytes, config), "direct");
    }
  }
  config.algorithm = "all_reduce:recursive_doubling,ring";
  EXPECT_EQ(choice(apart(8), Collective::all_reduce, 64 * kMiB, config), "recursive_doubling");
  config.algorithm = "all_reduce:ring";
  const std::string text = complaint(config);
  EXPECT_NE(text.find("UCXRING_DETERMINISTIC"), std::string::npos) << text;
}

TEST(Tuner, DescribesItsTable) {
  Tuner tuner(even_layout(4, 2), Config{}, CostParameters{});
  std::string text;
  for (const auto& line : describe_tuning(tuner)) text += line + "\n";
  for (int i = 0; i < kCollectives; ++i) {
    EXPECT_NE(text.find(to_string(static_cast<Collective>(i))), std::string::npos) << text;
  }
  EXPECT_NE(text.find("4 ranks on 2 hosts"), std::string::npos) << text;
  EXPECT_NE(text.find("latency 18000 ns"), std::string::npos) << text;
  EXPECT_NE(text.find("hierarchical_small"), std::string::npos) << text;
  const std::string line = describe_choice(tuner, Collective::all_reduce, kMiB);
  for (const char* word : {"all_reduce, 1048576 bytes: ", "others: ", "ring ", "tree ", " ms"}) {
    EXPECT_NE(line.find(word), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace ucxring
