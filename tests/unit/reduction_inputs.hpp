// Inputs shared by the tests of the reduction kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "collectives/reduce/table.hpp"
#include "hwy/highway.h"
#include "tests/unit/reduction_reference.hpp"

namespace ucxring::reduction_test {

using Bytes = std::vector<std::byte>;

inline constexpr std::size_t kGuard = 64;
inline constexpr std::byte kSentinel{0xA5};

inline std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int i = 0; i < kDataTypes; ++i) types.push_back(static_cast<DataType>(i));
  return types;
}

inline std::vector<ReduceOp> all_ops() {
  std::vector<ReduceOp> ops;
  for (int i = 0; i < kReduceOps; ++i) ops.push_back(static_cast<ReduceOp>(i));
  return ops;
}

inline bool is_integer(DataType type) { return type >= DataType::int8 && type <= DataType::boolean; }
inline bool is_complex(DataType type) { return type >= DataType::complex64; }

/// Half of the elements are random bits (NaN, infinities and subnormals among them), half are small numbers,
/// whose sums stay in range.
inline Bytes random_elements(DataType type, std::size_t count, std::mt19937_64& random) {
  const std::size_t lane = is_complex(type) ? size_of(type) / 2 : size_of(type);
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < bytes.size(); i += lane) {
    std::uint64_t bits = random();
    if (type == DataType::boolean && (bits & 0x300) != 0) bits &= 1;
    const bool wide = type == DataType::float64 || type == DataType::complex128;
    const auto small = static_cast<double>(static_cast<int>(random() % 2001) - 1000) / 64;
    if (wide && random() % 2 == 0) bits = std::bit_cast<std::uint64_t>(small);
    if (!wide && !is_integer(type) && lane == 4 && random() % 2 == 0) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(small));
    }
    std::memcpy(&bytes[i], &bits, lane);
  }
  return bytes;
}

/// Runs a test body once for each instruction set that was compiled and that this processor has.
class OnEveryTarget : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

/// A copy of elements at an odd address, between sentinels.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t offset)
      : bytes_(bytes), offset_(kGuard + offset), storage_(bytes + 2 * kGuard + offset, kSentinel) {}
  Guarded(const Bytes& content, std::size_t offset) : Guarded(content.size(), offset) {
    std::copy(content.begin(), content.end(), storage_.begin() + static_cast<std::ptrdiff_t>(offset_));
  }
  std::byte* data() { return storage_.data() + offset_; }
  [[nodiscard]] bool intact() const {
    const auto sentinel = [](std::byte value) { return value == kSentinel; };
    const auto begin = storage_.begin() + static_cast<std::ptrdiff_t>(offset_);
    return std::all_of(storage_.begin(), begin, sentinel) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), storage_.end(), sentinel);
  }

 private:
  std::size_t bytes_;
  std::size_t offset_;
  Bytes storage_;
};

inline void expect_same(DataType type, const Bytes& want, const std::byte* got, const std::string& what) {
  const std::size_t size = size_of(type);
  for (std::size_t i = 0; i < want.size(); i += size) {
    ASSERT_TRUE(reference::same(type, &want[i], got + i)) << what << " at element " << i / size;
  }
}

inline std::string target_name(const testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}

}  // namespace ucxring::reduction_test
