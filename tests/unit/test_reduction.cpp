#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "collectives/reduce/table.hpp"
#include "hwy/highway.h"
#include "tests/unit/reduction_inputs.hpp"
#include "tests/unit/reduction_reference.hpp"
#include "transport/base/error.hpp"

namespace ucxring {
namespace {

using namespace reduction_test;

class ReductionTest : public OnEveryTarget {};

constexpr std::size_t kCounts[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1000, 4097};

/// What the design says, written down a second time.
bool expected_support(DataType type, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::product:
      return true;
    case ReduceOp::average:
    case ReduceOp::premul_sum:
      return !is_integer(type);
    case ReduceOp::min:
    case ReduceOp::max:
      return !is_complex(type);
    default:
      return is_integer(type);
  }
}

enum class Alias { none, left, right };

struct Layout {
  Alias alias;
  std::size_t target, left, right;
};
constexpr Layout kLayouts[] = {
    {Alias::none, 0, 0, 0}, {Alias::none, 1, 2, 3},  {Alias::none, 7, 0, 13}, {Alias::left, 0, 0, 1},
    {Alias::left, 0, 5, 0}, {Alias::right, 0, 0, 0}, {Alias::right, 0, 1, 9},
};

void check_combine(DataType type, ReduceOp op, const Bytes& left, const Bytes& right, const Layout& layout) {
  const std::size_t size = size_of(type);
  const std::size_t count = left.size() / size;
  const std::string what = std::string(to_string(op)) + " of " + std::string(to_string(type)) + ", count " +
                           std::to_string(count) + ", layout " + std::to_string(&layout - kLayouts);
  Bytes want(left.size());
  for (std::size_t i = 0; i < want.size(); i += size) {
    reference::combine(type, op, &left[i], &right[i], &want[i]);
  }
  Guarded a(left, layout.left), b(right, layout.right), separate(left.size(), layout.target);
  Guarded& target = layout.alias == Alias::none ? separate : layout.alias == Alias::left ? a : b;
  find_reduction(type, op).combine(target.data(), a.data(), b.data(), count);
  expect_same(type, want, target.data(), what);
  ASSERT_TRUE(a.intact() && b.intact() && separate.intact()) << what;
  ASSERT_TRUE(&target == &a || std::equal(left.begin(), left.end(), a.data())) << what;
  ASSERT_TRUE(&target == &b || std::equal(right.begin(), right.end(), b.data())) << what;
}

TEST_P(ReductionTest, CombinesEveryPairAsTheReference) {
  std::mt19937_64 random(1);
  for (const DataType type : all_types()) {
    for (const ReduceOp op : all_ops()) {
      if (!supports_reduction(type, op)) continue;
      for (const std::size_t count : kCounts) {
        const Bytes left = random_elements(type, count, random), right = random_elements(type, count, random);
        for (const Layout& layout : kLayouts) {
          ASSERT_NO_FATAL_FAILURE(check_combine(type, op, left, right, layout));
        }
      }
    }
  }
}

void check_transform(DataType type, bool divide, double parameter, const Bytes& source, bool in_place) {
  const std::size_t size = size_of(type);
  Bytes want(source.size());
  for (std::size_t i = 0; i < want.size(); i += size) {
    reference::transform(type, divide, &source[i], parameter, &want[i]);
  }
  if (divide && parameter == 1.0) want = source;
  Guarded in(source, 3), separate(source.size(), 1);
  Guarded& target = in_place ? in : separate;
  const Reduction kernels = find_reduction(type, divide ? ReduceOp::average : ReduceOp::premul_sum);
  (divide ? kernels.divide : kernels.scale)(target.data(), in.data(), parameter, source.size() / size);
  const std::string what =
      std::string(to_string(type)) + (divide ? " / " : " * ") + std::to_string(parameter);
  expect_same(type, want, target.data(), what);
  if (divide && parameter == 1.0) {
    ASSERT_TRUE(std::equal(source.begin(), source.end(), target.data())) << what;
  }
  ASSERT_TRUE(in.intact() && separate.intact()) << what;
}

TEST_P(ReductionTest, ScalesAndDividesAsTheReference) {
  std::mt19937_64 random(2);
  for (const DataType type : all_types()) {
    if (!supports_reduction(type, ReduceOp::average)) continue;
    for (const std::size_t count : kCounts) {
      const Bytes source = random_elements(type, count, random);
      for (const double parameter : {1.0, 2.0, 3.0, 7.0, 1000.0, 0.1, -2.5}) {
        for (const bool divide : {true, false}) {
          for (const bool in_place : {true, false}) {
            ASSERT_NO_FATAL_FAILURE(check_transform(type, divide, parameter, source, in_place));
          }
        }
      }
    }
  }
}

TEST_P(ReductionTest, PairsWithoutExtraKernelHaveNone) {
  for (const DataType type : all_types()) {
    for (const ReduceOp op : all_ops()) {
      if (!supports_reduction(type, op)) continue;
      const Reduction found = find_reduction(type, op);
      EXPECT_NE(found.combine, nullptr);
      EXPECT_NE(found.fold, nullptr);
      EXPECT_EQ(found.scale != nullptr, op == ReduceOp::premul_sum);
      EXPECT_EQ(found.divide != nullptr, op == ReduceOp::average);
    }
  }
}

/// Every bit pattern of a 16-bit type, as an array of elements.
Bytes all_16_bit_patterns() {
  Bytes bytes(std::size_t{65536} * 2);
  for (std::size_t i = 0; i < 65536; ++i) reference::store(static_cast<std::uint16_t>(i), &bytes[2 * i]);
  return bytes;
}

TEST_P(ReductionTest, SixteenBitFloatsSurviveTheRoundTrip) {
  const Bytes every = all_16_bit_patterns();
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    const auto format = type == DataType::float16 ? reference::kFloat16 : reference::kBfloat16;
    Bytes negative_zero(every.size());
    for (std::size_t i = 0; i < every.size(); i += 2)
      reference::store(std::uint16_t{0x8000}, &negative_zero[i]);
    Bytes got(every.size());
    find_reduction(type, ReduceOp::sum).combine(got.data(), every.data(), negative_zero.data(), 65536);
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const auto bits = reference::load<std::uint16_t>(&got[std::size_t{2} * i]);
      const bool nan = (i & 0x7fff) > format.infinity();
      const std::uint32_t quiet = nan ? 1U << (format.mantissa_bits - 1) : 0;
      ASSERT_EQ(bits, i | quiet) << to_string(type);
    }
  }
}

TEST_P(ReductionTest, SixteenBitFloatsRoundAsTheReference) {
  const Bytes every = all_16_bit_patterns();
  std::mt19937_64 random(3);
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
      for (int round = 0; round < 4; ++round) {
        const Bytes other = random_elements(type, 65536, random);
        ASSERT_NO_FATAL_FAILURE(check_combine(type, op, every, other, kLayouts[0]));
      }
    }
  }
}

TEST_P(ReductionTest, EightBitFloatsCombineAsTheReferenceForAllPairs) {
  Bytes left(65536), right(65536);
  for (std::size_t i = 0; i < 65536; ++i) {
    left[i] = static_cast<std::byte>(i >> 8);
    right[i] = static_cast<std::byte>(i & 0xff);
  }
  for (const DataType type : {DataType::float8_e4m3fn, DataType::float8_e5m2}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
      ASSERT_NO_FATAL_FAILURE(check_combine(type, op, left, right, kLayouts[0]));
    }
  }
}

TEST_P(ReductionTest, EightBitFloatsOverflowToNanOrInfinity) {
  const auto sum = [](DataType type, int a, int b) {
    const auto left = static_cast<std::uint8_t>(a), right = static_cast<std::uint8_t>(b);
    std::uint8_t out = 0;
    find_reduction(type, ReduceOp::sum).combine(&out, &left, &right, 1);
    return int{out};
  };
  EXPECT_EQ(sum(DataType::float8_e4m3fn, 0x7e, 0x58), 0x7e);  // 448 + 16 = 464 ties to even, 448
  EXPECT_EQ(sum(DataType::float8_e4m3fn, 0x7e, 0x59), 0x7f);  // 448 + 18 rounds to 480, which is NaN
  EXPECT_EQ(sum(DataType::float8_e4m3fn, 0xfe, 0xfe), 0xff);
  EXPECT_EQ(sum(DataType::float8_e5m2, 0x7b, 0x7b), 0x7c);  // twice the largest is infinity
  EXPECT_EQ(sum(DataType::float8_e5m2, 0xfb, 0xfb), 0xfc);
  EXPECT_EQ(sum(DataType::float8_e5m2, 0x7c, 0xfc) & 0x7f, 0x7f);  // infinity − infinity
}

TEST_P(ReductionTest, MinAndMaxAreTheSameBitsInBothOrders) {
  std::mt19937_64 random(4);
  for (const DataType type : all_types()) {
    if (is_integer(type) || is_complex(type)) continue;
    const std::size_t count = 4096, size = size_of(type);
    Bytes a = random_elements(type, count, random), b = random_elements(type, count, random);
    for (std::size_t i = 0; i < 16 * size; ++i) a[i] = b[i] = std::byte{0};
    for (std::size_t i = 0; i < 16; ++i) (i % 2 == 0 ? a : b)[i * size + size - 1] = std::byte{0x80};  // −0
    for (std::size_t i = 16 * size; i < 32 * size; ++i)
      a[i] = b[i ^ 1] = static_cast<std::byte>(0xff ^ (i % 3));
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      Bytes forward(a.size()), backward(a.size());
      find_reduction(type, op).combine(forward.data(), a.data(), b.data(), count);
      find_reduction(type, op).combine(backward.data(), b.data(), a.data(), count);
      EXPECT_TRUE(forward == backward) << to_string(op) << " of " << to_string(type);
      EXPECT_EQ(forward[size - 1], op == ReduceOp::min ? std::byte{0x80} : std::byte{0}) << to_string(type);
      for (std::size_t i = 0; i < a.size(); i += size) {
        std::byte want[8];
        reference::combine(type, op, &a[i], &b[i], want);
        ASSERT_EQ(std::memcmp(want, &forward[i], size), 0) << to_string(type) << " NaN is canonical";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ReductionTest, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         target_name);

TEST(ReductionTable, SupportsWhatTheDesignSays) {
  for (const DataType type : all_types()) {
    for (const ReduceOp op : all_ops()) {
      EXPECT_EQ(supports_reduction(type, op), expected_support(type, op)) << to_string(op) << to_string(type);
    }
  }
}

TEST(ReductionTable, UnsupportedPairsThrowNamingBoth) {
  for (const DataType type : all_types()) {
    for (const ReduceOp op : all_ops()) {
      if (supports_reduction(type, op)) continue;
      try {
        (void)find_reduction(type, op);
        ADD_FAILURE() << "no error for " << to_string(op) << " of " << to_string(type);
      } catch (const Error& error) {
        const std::string message = error.what();
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        EXPECT_NE(message.find(to_string(type)), std::string::npos) << message;
        EXPECT_NE(message.find(to_string(op)), std::string::npos) << message;
        EXPECT_EQ(message.find("no such"), std::string::npos) << message;
      }
    }
  }
}

TEST(ReductionTable, DeviceMemoryIsUnsupported) {
  EXPECT_THROW((void)find_reduction(DataType::float32, ReduceOp::sum, MemoryKind::cuda), Error);
}

TEST(ReductionTable, NamesAndSizes) {
  EXPECT_EQ(to_string(DataType::float8_e4m3fn), "float8_e4m3fn");
  EXPECT_EQ(to_string(DataType::complex128), "complex128");
  EXPECT_EQ(to_string(ReduceOp::premul_sum), "premul_sum");
  constexpr std::size_t kSizes[kDataTypes] = {8, 4, 2, 2, 1, 1, 1, 1, 2, 4, 8, 2, 4, 8, 1, 8, 16};
  for (const DataType type : all_types()) EXPECT_EQ(size_of(type), kSizes[static_cast<std::size_t>(type)]);
  EXPECT_EQ(size_of(static_cast<DataType>(200)), 0U);
  EXPECT_FALSE(supports_reduction(static_cast<DataType>(200), ReduceOp::sum));
  EXPECT_FALSE(supports_reduction(DataType::float32, static_cast<ReduceOp>(200)));
}

}  // namespace
}  // namespace ucxring
