#include "collectives/registry.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace ucxring {
namespace {

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

}  // namespace
}  // namespace ucxring
