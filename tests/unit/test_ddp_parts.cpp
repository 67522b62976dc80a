#include <gtest/gtest.h>

#include <numeric>

#include "backend/ddp/bucket_plan.hpp"
#include "backend/ddp/distributed_sampler.hpp"

namespace ucxring::ddp {
namespace {

using Plan = std::vector<std::vector<std::size_t>>;

Plan plan_in_reverse(const std::vector<GradientShape>& shapes, const BucketLimits& limits) {
  std::vector<std::size_t> order(shapes.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return plan_buckets(shapes, order, limits);
}

TEST(BucketPlan, FillsBucketsInTheGivenOrder) {
  const std::vector<GradientShape> shapes(5, {.bytes = 10});
  EXPECT_EQ(plan_in_reverse(shapes, {10, 20}), (Plan{{4}, {3, 2}, {1, 0}}));
  EXPECT_EQ(plan_in_reverse(shapes, {11, 1000}), (Plan{{4, 3}, {2, 1, 0}}));
  EXPECT_EQ(plan_in_reverse(shapes, {1000, 1000}), (Plan{{4, 3, 2, 1, 0}}));
}

TEST(BucketPlan, KeepsKindsApartAndOrdersBucketsByTheirLastMember) {
  const std::vector<GradientShape> shapes{{10, 0, false}, {10, 1, false}, {10, 0, false}, {10, 1, false}};
  EXPECT_EQ(plan_in_reverse(shapes, {1000, 1000}), (Plan{{3, 1}, {2, 0}}));
  EXPECT_EQ(plan_in_reverse(shapes, {20, 5}), (Plan{{3, 1}, {2, 0}}));
}

TEST(BucketPlan, SparseGradientsAreAlone) {
  const std::vector<GradientShape> shapes{{10, 0, false}, {10, 0, true}, {10, 0, false}};
  EXPECT_EQ(plan_in_reverse(shapes, {1000, 1000}), (Plan{{1}, {2, 0}}));
}

TEST(BucketPlan, NothingGivesNothing) { EXPECT_TRUE(plan_in_reverse({}, {}).empty()); }

std::vector<std::size_t> chosen(std::size_t size, int rank, int world_size, std::uint64_t epoch,
                                const SamplerOptions& options) {
  DistributedSampler sampler(size, rank, world_size, options);
  sampler.set_epoch(epoch);
  return sampler.indices();
}

// What torch.utils.data.DistributedSampler(range(10), 4, rank, shuffle, seed=3, drop_last) gives after
// set_epoch(2).
TEST(DistributedSampler, ChoosesAsPythonsDoes) {
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(chosen(10, 0, 4, 2, {true, 3, false}), (Indices{1, 3, 8}));
  EXPECT_EQ(chosen(10, 3, 4, 2, {true, 3, false}), (Indices{6, 2, 4}));
  EXPECT_EQ(chosen(10, 0, 4, 2, {true, 3, true}), (Indices{1, 3}));
  EXPECT_EQ(chosen(10, 3, 4, 2, {true, 3, true}), (Indices{6, 2}));
  EXPECT_EQ(chosen(10, 0, 4, 2, {false, 3, false}), (Indices{0, 4, 8}));
  EXPECT_EQ(chosen(10, 3, 4, 2, {false, 3, false}), (Indices{3, 7, 1}));
}

TEST(DistributedSampler, GivesBatchesUntilTheEpochEnds) {
  DistributedSampler sampler(10, 0, 2, {.shuffle = false});
  EXPECT_EQ(sampler.next(3), (std::vector<std::size_t>{0, 2, 4}));
  EXPECT_EQ(sampler.next(3), (std::vector<std::size_t>{6, 8}));
  EXPECT_FALSE(sampler.next(3).has_value());
  sampler.reset(4);
  EXPECT_EQ(sampler.next(3), (std::vector<std::size_t>{0, 2}));
}

TEST(DistributedSampler, RefusesRanksThatAreNone) {
  EXPECT_ANY_THROW(DistributedSampler(10, 2, 2));
  EXPECT_ANY_THROW(DistributedSampler(10, -1, 2));
  EXPECT_ANY_THROW(DistributedSampler(0, 0, 1));
}

}  // namespace
}  // namespace ucxring::ddp
