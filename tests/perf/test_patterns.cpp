#include <gtest/gtest.h>

#include "bench/perf/patterns.hpp"
#include "collectives/reduce/table.hpp"

namespace ucxring::perf {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kCount = 2 * Pattern::kPeriod + 5;

Bytes contents(const Pattern& pattern, DataType type, std::size_t first = 0) {
  Bytes bytes(kCount * size_of(type));
  pattern.fill({bytes.data(), bytes.size()}, first);
  return bytes;
}

/// The kernels' own result, ranks combined in rising or falling order.
Bytes reduce(DataType type, ReduceOp op, int world_size, bool falling) {
  const Reduction kernels = find_reduction(type, op);
  Bytes sum;
  for (int i = 0; i < world_size; ++i) {
    const int rank = falling ? world_size - 1 - i : i;
    Bytes own = contents(contribution(type, op, rank, world_size), type);
    if (kernels.scale != nullptr) kernels.scale(own.data(), own.data(), kPremulFactor, kCount);
    if (sum.empty()) {
      sum = own;
    } else {
      kernels.combine(sum.data(), sum.data(), own.data(), kCount);
    }
  }
  if (kernels.divide != nullptr) kernels.divide(sum.data(), sum.data(), world_size, kCount);
  return sum;
}

TEST(Patterns, EveryReductionIsExactInEveryOrder) {
  for (int t = 0; t < kDataTypes; ++t) {
    for (int o = 0; o < kReduceOps; ++o) {
      const auto type = static_cast<DataType>(t);
      const auto op = static_cast<ReduceOp>(o);
      if (!supports_reduction(type, op)) continue;
      for (const int world_size : {1, 2, 3, 7, 16, 64}) {
        if (!has_exact_contributions(type, op, world_size)) continue;
        const Bytes result = contents(reduction(type, op, world_size), type);
        EXPECT_EQ(reduce(type, op, world_size, false), result) << to_string(type) << ' ' << to_string(op);
        EXPECT_EQ(reduce(type, op, world_size, true), result) << to_string(type) << ' ' << to_string(op);
      }
    }
  }
}

TEST(Patterns, AFlippedBitIsOneWrongElement) {
  for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::int8, DataType::complex128}) {
    const Pattern pattern = reduction(type, ReduceOp::sum, 3);
    Bytes bytes = contents(pattern, type);
    const ConstBuffer found(bytes.data(), bytes.size());
    EXPECT_EQ(pattern.count_wrong(found), 0U);
    for (const std::size_t element : {std::size_t{0}, Pattern::kPeriod, kCount - 1}) {
      bytes[element * size_of(type)] ^= std::byte{0x40};
      EXPECT_EQ(pattern.count_wrong(found), 1U);
      bytes[element * size_of(type)] ^= std::byte{0x40};
    }
  }
}

TEST(Patterns, AShiftIsSeen) {
  const Pattern pattern = contribution(DataType::float32, ReduceOp::sum, 0, 2);
  const Bytes shifted = contents(pattern, DataType::float32, 4096);
  EXPECT_GT(pattern.count_wrong({shifted.data(), shifted.size()}), kCount / 10);
  EXPECT_EQ(pattern.count_wrong({shifted.data(), shifted.size()}, 4096), 0U);
}

TEST(Patterns, RanksDiffer) {
  for (int o = 0; o < kReduceOps; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    EXPECT_NE(contents(contribution(DataType::int32, op, 0, 2), DataType::int32),
              contents(contribution(DataType::int32, op, 1, 2), DataType::int32));
  }
  EXPECT_NE(contents(arbitrary(DataType::float32, 0), DataType::float32),
            contents(arbitrary(DataType::float32, 1), DataType::float32));
}

TEST(Patterns, SomeMeansAreNotExact) {
  EXPECT_TRUE(has_exact_contributions(DataType::float8_e5m2, ReduceOp::average, 14));
  EXPECT_FALSE(has_exact_contributions(DataType::float8_e5m2, ReduceOp::average, 9));
  EXPECT_TRUE(has_exact_contributions(DataType::float8_e5m2, ReduceOp::sum, 9));
  EXPECT_TRUE(has_exact_contributions(DataType::float8_e4m3fn, ReduceOp::average, 9));
}

}  // namespace
}  // namespace ucxring::perf
