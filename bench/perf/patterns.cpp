#include "bench/perf/patterns.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace ucxring::perf {
namespace {

template <typename T>
void put(T value, std::byte* where) {
  std::memcpy(where, &value, sizeof value);
}

/// Digits of the significand behind the binary point; the integers count as float64.
int mantissa_bits(DataType type) noexcept {
  switch (type) {
    case DataType::float8_e5m2:
      return 2;
    case DataType::float8_e4m3fn:
      return 3;
    case DataType::bfloat16:
      return 7;
    case DataType::float16:
      return 10;
    case DataType::float32:
    case DataType::complex64:
      return 23;
    default:
      return 52;
  }
}

/// A small non-negative integer in an IEEE-like format of at most 16 bits.
std::uint16_t narrow_float(unsigned value, DataType type, int bias) {
  if (value == 0) return 0;
  const int digits = mantissa_bits(type);
  const int exponent = static_cast<int>(std::bit_width(value)) - 1;
  const unsigned fraction = value ^ (1U << exponent);
  const unsigned mantissa =
      exponent <= digits ? fraction << (digits - exponent) : fraction >> (exponent - digits);
  return static_cast<std::uint16_t>((static_cast<unsigned>(exponent + bias) << digits) | mantissa);
}

void encode(DataType type, unsigned value, std::byte* where) {
  switch (type) {
    case DataType::float64:
    case DataType::complex128:
      return put(static_cast<double>(value), where);
    case DataType::float32:
    case DataType::complex64:
      return put(static_cast<float>(value), where);
    case DataType::float16:
      return put(narrow_float(value, type, 15), where);
    case DataType::bfloat16:
      return put(narrow_float(value, type, 127), where);
    case DataType::float8_e4m3fn:
      return put(static_cast<std::uint8_t>(narrow_float(value, type, 7)), where);
    case DataType::float8_e5m2:
      return put(static_cast<std::uint8_t>(narrow_float(value, type, 15)), where);
    case DataType::int8:
    case DataType::uint8:
    case DataType::boolean:
      return put(static_cast<std::uint8_t>(value), where);
    case DataType::int16:
    case DataType::uint16:
      return put(static_cast<std::uint16_t>(value), where);
    case DataType::int32:
    case DataType::uint32:
      return put(value, where);
    case DataType::int64:
    case DataType::uint64:
      return put(std::uint64_t{value}, where);
  }
}

/// `rank`'s element number `index` as a number.
unsigned value_of(DataType type, ReduceOp op, unsigned rank, unsigned world_size, unsigned index) {
  if (type == DataType::boolean) return (index + rank) % 3 == 0 ? 1 : 0;
  // At most four ranks contribute a one or a two, because float8_e5m2 has all integers up to 8 and no more.
  const unsigned spread = std::max(3U, (world_size + 3) / 4);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::premul_sum:
      return (index + rank) % spread == 0 ? 1 + index % 2 : 0;
    case ReduceOp::average:  // one rank holds the world size or nothing, the others nothing
      return index % world_size == rank ? world_size * (index / world_size % 2) : 0;
    case ReduceOp::product:
      return index % world_size == rank ? 2 + index % 2 : 1;
    case ReduceOp::min:
    case ReduceOp::max:
      return (index * 7 + rank * 3) % 8;
    case ReduceOp::bit_and:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor:
      return (index * 31 + rank * 17) % 128;
  }
  return 0;
}

unsigned combine(DataType type, ReduceOp op, unsigned left, unsigned right) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
    case ReduceOp::premul_sum:
      return type == DataType::boolean ? left | right : left + right;
    case ReduceOp::product:
      return left * right;
    case ReduceOp::min:
      return std::min(left, right);
    case ReduceOp::max:
      return std::max(left, right);
    case ReduceOp::bit_and:
      return left & right;
    case ReduceOp::bit_or:
      return left | right;
    case ReduceOp::bit_xor:
      return left ^ right;
  }
  return 0;
}

template <typename Value>
Pattern make_pattern(DataType type, Value value) {
  const std::size_t size = size_of(type);
  std::vector<std::byte> period(Pattern::kPeriod * size);
  for (std::size_t i = 0; i < Pattern::kPeriod; ++i) {
    encode(type, value(static_cast<unsigned>(i)), period.data() + i * size);
  }
  return {std::move(period), size};
}

}  // namespace

Pattern::Pattern(std::vector<std::byte> period, std::size_t element_bytes)
    : period_(std::move(period)), element_bytes_(element_bytes) {}

void Pattern::fill(Buffer target, std::size_t first) const {
  std::size_t from = first % kPeriod * element_bytes_;
  for (std::size_t done = 0; done < target.bytes; from = 0) {
    const std::size_t bytes = std::min(period_.size() - from, target.bytes - done);
    std::memcpy(target.data + done, period_.data() + from, bytes);
    done += bytes;
  }
}

std::uint64_t Pattern::count_wrong(ConstBuffer found, std::size_t first) const {
  std::uint64_t wrong = 0;
  std::size_t from = first % kPeriod * element_bytes_;
  for (std::size_t done = 0; done < found.bytes; from = 0) {
    const std::size_t bytes = std::min(period_.size() - from, found.bytes - done);
    const std::byte* have = found.data + done;
    const std::byte* want = period_.data() + from;
    const bool same = std::memcmp(have, want, bytes) == 0;
    for (std::size_t i = 0; !same && i < bytes; i += element_bytes_) {
      if (std::memcmp(have + i, want + i, element_bytes_) != 0) ++wrong;
    }
    done += bytes;
  }
  return wrong;
}

Pattern contribution(DataType type, ReduceOp op, int rank, int world_size) {
  return make_pattern(type, [=](unsigned index) {
    return value_of(type, op, static_cast<unsigned>(rank), static_cast<unsigned>(world_size), index);
  });
}

Pattern reduction(DataType type, ReduceOp op, int world_size) {
  const auto ranks = static_cast<unsigned>(world_size);
  return make_pattern(type, [=](unsigned index) {
    unsigned value = value_of(type, op, 0, ranks, index);
    for (unsigned rank = 1; rank < ranks; ++rank) {
      value = combine(type, op, value, value_of(type, op, rank, ranks, index));
    }
    if (op == ReduceOp::average) return value / ranks;
    return op == ReduceOp::premul_sum ? value * kPremulFactor : value;
  });
}

bool has_exact_contributions(DataType type, ReduceOp op, int world_size) noexcept {
  const auto ranks = static_cast<unsigned>(world_size);
  const int digits = static_cast<int>(std::bit_width(ranks)) - std::countr_zero(ranks);
  return op != ReduceOp::average || digits <= mantissa_bits(type) + 1;
}

Pattern arbitrary(DataType type, int rank) {
  const std::size_t size = size_of(type);
  std::vector<std::byte> period(Pattern::kPeriod * size);
  std::uint32_t state = static_cast<std::uint32_t>(rank) + 1;
  for (std::byte& byte : period) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes' linear congruential generator
    byte = static_cast<std::byte>(state >> 24);
  }
  return {std::move(period), size};
}

}  // namespace ucxring::perf
