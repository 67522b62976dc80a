#include "collectives/registry.hpp"

#include <gtest/gtest.h>

#include <set>

#include "collectives/preference.hpp"

namespace ucxring {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 4096, 16384, 16385, 65536, 65537, 1 << 20, std::size_t{1} << 40};

std::string_view choice(Collective collective, std::size_t bytes, int world_size,
                        std::string_view preference = "") {
  return choose_algorithm(collective, bytes, world_size, preference).name;
}

std::string complaint(std::string_view preference) {
  try {
    check_preference(preference);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

TEST(Registry, FindsEveryAlgorithmByItsName) {
  std::set<std::pair<Collective, std::string_view>> names;
  for (const Algorithm& algorithm : algorithms()) {
    EXPECT_TRUE(names.emplace(algorithm.collective, algorithm.name).second) << algorithm.name << " twice";
    EXPECT_EQ(find_algorithm(algorithm.collective, algorithm.name), &algorithm);
    EXPECT_FALSE(algorithm.summary.empty());
  }
  EXPECT_EQ(find_algorithm(Collective::all_reduce, "binomial"), nullptr);
  EXPECT_EQ(find_algorithm(Collective::barrier, ""), nullptr);
}

TEST(Registry, ChoosesForEveryCollectiveSizeAndWorld) {
  for (int collective = 0; collective < kCollectives; ++collective) {
    for (const std::size_t bytes : kSizes) {
      for (const int world_size : {2, 3, 8, 9, 64, 4096}) {
        const Algorithm& chosen =
            choose_algorithm(static_cast<Collective>(collective), bytes, world_size, "");
        EXPECT_EQ(chosen.collective, static_cast<Collective>(collective));
        EXPECT_TRUE(chosen.supports(world_size));
      }
    }
  }
}

TEST(Registry, DefaultsBySize) {
  EXPECT_EQ(choice(Collective::all_reduce, 8, 2), "recursive_doubling");
  EXPECT_EQ(choice(Collective::all_reduce, 16384, 7), "recursive_doubling");
  EXPECT_EQ(choice(Collective::all_reduce, 65536, 4), "direct_two_shot");
  EXPECT_EQ(choice(Collective::all_reduce, 65536, 2), "direct");
  EXPECT_EQ(choice(Collective::all_reduce, 65536, 9), "ring");
  EXPECT_EQ(choice(Collective::all_reduce, 1 << 20, 16), "tree");
  EXPECT_EQ(choice(Collective::all_reduce, 1 << 20, 15), "ring");
  EXPECT_EQ(choice(Collective::all_reduce, 64 << 20, 2), "ring");
  EXPECT_EQ(choice(Collective::broadcast, 8, 5), "binomial");
  EXPECT_EQ(choice(Collective::broadcast, 1 << 20, 5), "chain");
  EXPECT_EQ(choice(Collective::all_gather, 1 << 20, 5), "ring");
  EXPECT_EQ(choice(Collective::barrier, 0, 5), "dissemination");
}

TEST(Registry, OneNameIsForced) {
  for (const Algorithm& algorithm : algorithms()) {
    const std::string preference =
        std::string(to_string(algorithm.collective)) + ":" + std::string(algorithm.name);
    for (const std::size_t bytes : kSizes) {
      EXPECT_EQ(choice(algorithm.collective, bytes, 4, preference), algorithm.name);
    }
  }
}

TEST(Registry, SeveralNamesAreChosenAmongBySize) {
  const std::string_view preference = "all_reduce:ring,recursive_doubling";
  EXPECT_EQ(choice(Collective::all_reduce, 1024, 4, preference), "recursive_doubling");
  EXPECT_EQ(choice(Collective::all_reduce, 40000, 4, preference), "ring");
}

TEST(Registry, ExcludedNamesAreNotChosen) {
  EXPECT_EQ(choice(Collective::broadcast, 1 << 20, 4, "broadcast:^chain"), "binomial");
  EXPECT_NE(choice(Collective::all_reduce, 64 << 20, 4, "all_reduce:^ring"), "ring");
  const auto chosen = choice(Collective::all_reduce, 8, 4, "all_reduce:^recursive_doubling,direct_two_shot");
  EXPECT_TRUE(chosen != "recursive_doubling" && chosen != "direct_two_shot") << chosen;
}

TEST(Registry, ClausesOfOtherCollectivesDoNotMatter) {
  EXPECT_EQ(choice(Collective::barrier, 0, 4, "broadcast:chain"), "dissemination");
}

TEST(Preference, ParsesTheGrammar) {
  const auto clauses = parse_preference(" all_reduce : ring , direct ;; broadcast:^chain; ");
  ASSERT_EQ(clauses.size(), 2u);
  EXPECT_EQ(clauses[0].collective, Collective::all_reduce);
  EXPECT_FALSE(clauses[0].excludes);
  EXPECT_EQ(clauses[0].names, (std::vector<std::string_view>{"ring", "direct"}));
  EXPECT_TRUE(clauses[0].allows("direct"));
  EXPECT_FALSE(clauses[0].allows("tree"));
  EXPECT_TRUE(clauses[1].excludes);
  EXPECT_TRUE(clauses[1].allows("binomial"));
  EXPECT_FALSE(clauses[1].allows("chain"));
}

TEST(Preference, AcceptsGoodOnes) {
  for (const char* good :
       {"", " ", ";", "all_reduce:ring", "all_reduce:ring;", "broadcast:^chain;barrier:dissemination"}) {
    EXPECT_EQ(complaint(good), "") << good;
  }
}

TEST(Preference, RefusesBadOnes) {
  for (const char* bad : {"ring", ":", "all_reduce", "all_reduce:", "all_reduce:^", "all_reduce:ring,",
                          "all_reduce:,ring", "all_reduce:ring,^direct", "all_reduce:Ring", "allreduce:ring",
                          "all_reduce:ring;all_reduce:direct", "all_reduce:ring:direct", "broadcast:ring"}) {
    EXPECT_NE(complaint(bad), "") << bad;
    EXPECT_THROW((void)choose_algorithm(Collective::barrier, 0, 2, bad), Error) << bad;
  }
}

TEST(Preference, ComplaintsListWhatIsKnown) {
  const std::string name = complaint("all_reduce:rng");
  EXPECT_NE(name.find("\"rng\""), std::string::npos) << name;
  EXPECT_NE(name.find("recursive_doubling"), std::string::npos) << name;
  EXPECT_NE(name.find("ring"), std::string::npos) << name;
  EXPECT_EQ(name.find("binomial"), std::string::npos) << name;
  const std::string collective = complaint("gather:ring");
  EXPECT_NE(collective.find("all_reduce, broadcast, all_gather, reduce_scatter, barrier"), std::string::npos)
      << collective;
}

TEST(Preference, MustLeaveSomething) {
  const std::string text = complaint("barrier:^dissemination");
  EXPECT_NE(text.find("no algorithm is left for barrier"), std::string::npos) << text;
}

}  // namespace
}  // namespace ucxring
