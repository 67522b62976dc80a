#include "collectives/symbolic/expressions.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace ucxring::symbolic {
namespace {

TEST(Expressions, EqualOnesHaveEqualIds) {
  Expressions pool(3);
  const auto sum = pool.combine(pool.contribution(0), pool.contribution(1));
  EXPECT_EQ(pool.combine(pool.contribution(0), pool.contribution(1)), sum);
  EXPECT_NE(pool.combine(pool.contribution(1), pool.contribution(0)), sum);
  EXPECT_NE(pool.complete(sum), sum);
  EXPECT_EQ(pool.complete(sum), pool.complete(sum));
}

TEST(Expressions, GroupingMatters) {
  Expressions pool(3);
  const auto left = pool.combine(pool.combine(0, 1), 2);
  const auto right = pool.combine(0, pool.combine(1, 2));
  EXPECT_NE(left, right);
  EXPECT_EQ(pool.text(left), "((0 + 1) + 2)");
  EXPECT_EQ(pool.text(right), "(0 + (1 + 2))");
  EXPECT_EQ(pool.defect(left), "");
  EXPECT_EQ(pool.defect(right), "");
}

TEST(Expressions, DefectsNameARank) {
  Expressions pool(3);
  EXPECT_EQ(pool.defect(pool.combine(0, 2)), "misses the contribution of rank 1");
  EXPECT_EQ(pool.defect(pool.combine(pool.combine(0, 1), 1)), "holds the contribution of rank 1 twice");
}

TEST(Expressions, CompletenessIsAMark) {
  Expressions pool(2);
  const auto sum = pool.combine(0, 1);
  EXPECT_FALSE(pool.is_complete(sum));
  EXPECT_TRUE(pool.is_complete(pool.complete(sum)));
  EXPECT_EQ(pool.size(pool.complete(sum)), 2u);
  EXPECT_EQ(pool.defect(pool.complete(sum)), "");
}

TEST(Expressions, ExponentialSumsStayCheap) {
  Expressions pool(4);
  auto sum = pool.contribution(3);
  for (int i = 0; i < 1000; ++i) sum = pool.combine(sum, sum);
  EXPECT_EQ(pool.size(sum), std::numeric_limits<std::uint32_t>::max());
  EXPECT_EQ(pool.defect(sum), "holds the contribution of rank 3 twice");
  EXPECT_EQ(pool.text(sum), "a sum of 4294967295 contributions");
}

}  // namespace
}  // namespace ucxring::symbolic
