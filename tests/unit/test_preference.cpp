#include "collectives/preference.hpp"

#include <gtest/gtest.h>

namespace ucxring {
namespace {

std::string complaint(std::string_view preference) {
  try {
    (void)parse_preference(preference);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

bool allowed(std::string_view preference, Collective collective, std::string_view name) {
  const Algorithm* const algorithm = find_algorithm(collective, name);
  EXPECT_NE(algorithm, nullptr) << name;
  return allows(parse_preference(preference), *algorithm);
}

TEST(Preference, ParsesTheGrammar) {
  const auto clauses = parse_preference(" all_reduce : ring , direct ;; broadcast:^chain; ");
  ASSERT_EQ(clauses.size(), 2u);
  EXPECT_EQ(clauses[0].collective, Collective::all_reduce);
  EXPECT_FALSE(clauses[0].excludes);
  EXPECT_EQ(clauses[0].names, (std::vector<std::string>{"ring", "direct"}));
  EXPECT_TRUE(clauses[0].allows("direct"));
  EXPECT_FALSE(clauses[0].allows("tree"));
  EXPECT_TRUE(clauses[1].excludes);
  EXPECT_TRUE(clauses[1].allows("binomial"));
  EXPECT_FALSE(clauses[1].allows("chain"));
}

TEST(Preference, IsSpeltAsForNccl) {
  for (const char* same : {"all_reduce:ring", "allreduce:ring", "AllReduce:Ring", " ALLREDUCE : RING "}) {
    const auto clauses = parse_preference(same);
    ASSERT_EQ(clauses.size(), 1u) << same;
    EXPECT_EQ(clauses[0].collective, Collective::all_reduce) << same;
    EXPECT_EQ(clauses[0].names, std::vector<std::string>{"ring"}) << same;
  }
  EXPECT_EQ(parse_preference("reducescatter:ring")[0].collective, Collective::reduce_scatter);
  EXPECT_EQ(parse_preference("AllGather:ring")[0].collective, Collective::all_gather);
}

TEST(Preference, AClauseWithoutCollectiveHoldsForAllThatKnowItsNames) {
  EXPECT_TRUE(allowed("ring,tree", Collective::all_reduce, "tree"));
  EXPECT_FALSE(allowed("ring,tree", Collective::all_reduce, "direct"));
  EXPECT_FALSE(allowed("ring,tree", Collective::all_gather, "direct"));
  EXPECT_TRUE(allowed("ring,tree", Collective::barrier, "dissemination"));
  EXPECT_FALSE(allowed("^direct", Collective::all_gather, "direct"));
  EXPECT_TRUE(allowed("^direct", Collective::all_gather, "ring"));
}

TEST(Preference, AClauseWithCollectiveGoesBeforeOneWithout) {
  for (const char* text : {"ring;all_gather:direct", "all_gather:direct;ring"}) {
    EXPECT_TRUE(allowed(text, Collective::all_gather, "direct")) << text;
    EXPECT_FALSE(allowed(text, Collective::all_gather, "ring")) << text;
    EXPECT_FALSE(allowed(text, Collective::all_reduce, "direct")) << text;
  }
}

TEST(Preference, AcceptsGoodOnes) {
  for (const char* good : {"", " ", ";", "all_reduce:ring", "all_reduce:ring;", "ring", "^ring",
                           "broadcast:^chain;barrier:dissemination"}) {
    EXPECT_EQ(complaint(good), "") << good;
  }
}

TEST(Preference, RefusesBadOnes) {
  for (const char* bad : {":", "all_reduce", "all_reduce:", "all_reduce:^", "all_reduce:ring,", "ring,", "^",
                          "all_reduce:,ring", "all_reduce:ring,^direct", "all_reduce:ring;allreduce:direct",
                          "all_reduce:ring:direct", "broadcast:ring", "ring;tree", "teleport"}) {
    EXPECT_NE(complaint(bad), "") << bad;
  }
}

TEST(Preference, ComplaintsQuoteThePartAndListWhatIsKnown) {
  const std::string name = complaint("broadcast:chain;all_reduce:rng");
  EXPECT_NE(name.find("\"rng\""), std::string::npos) << name;
  EXPECT_NE(name.find("recursive_doubling"), std::string::npos) << name;
  EXPECT_EQ(name.find("binomial"), std::string::npos) << name;
  const std::string general = complaint("rng");
  EXPECT_NE(general.find("binomial"), std::string::npos) << general;
  EXPECT_NE(general.find("for any collective"), std::string::npos) << general;
  const std::string collective = complaint("collect:ring");
  EXPECT_NE(collective.find("\"collect\""), std::string::npos) << collective;
  EXPECT_NE(collective.find("all_reduce, broadcast, reduce, all_gather"), std::string::npos) << collective;
  EXPECT_NE(complaint("ring;^tree").find("\"^tree\""), std::string::npos);
}

}  // namespace
}  // namespace ucxring
