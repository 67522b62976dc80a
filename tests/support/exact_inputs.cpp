#include "tests/support/exact_inputs.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "collectives/reduce/table.hpp"

namespace ucxring::testing {

namespace {

template <typename T>
void put(T value, std::byte* where) {
  std::memcpy(where, &value, sizeof value);
}

/// A non-negative integer in a small IEEE-like format.
std::uint16_t small_float(int value, int mantissa_bits, int bias) {
  if (value == 0) return 0;
  const auto magnitude = static_cast<unsigned>(value);
  const int exponent = std::bit_width(magnitude) - 1;
  const unsigned fraction = magnitude ^ (1U << static_cast<unsigned>(exponent));
  const unsigned mantissa = exponent <= mantissa_bits
                                ? fraction << static_cast<unsigned>(mantissa_bits - exponent)
                                : fraction >> static_cast<unsigned>(exponent - mantissa_bits);
  return static_cast<std::uint16_t>(
      (static_cast<unsigned>(exponent + bias) << static_cast<unsigned>(mantissa_bits)) | mantissa);
}

bool one_rank_differs(int rank, int world_size, std::size_t index) {
  return static_cast<std::size_t>(rank) == index % static_cast<std::size_t>(world_size);
}

int combine(ReduceOp op, DataType type, int left, int right) {
  const bool boolean = type == DataType::boolean;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
    case ReduceOp::premul_sum:
      return boolean ? (left | right) : left + right;
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

}  // namespace

int exact_element(ReduceOp op, DataType type, int rank, int world_size, std::size_t index) {
  const auto i = static_cast<int>(index % 1009);
  if (type == DataType::boolean) return (i + rank) % 3 == 0 ? 1 : 0;
  switch (op) {
    // At most a third of 16 ranks contribute a one or a two, so that the sum fits e4m3fn's three mantissa
    // bits.
    case ReduceOp::sum:
    case ReduceOp::premul_sum:
      return (i + rank) % 5 == 0 ? 1 + i % 2 : 0;
    // One rank holds the world size, so that the mean is one.
    case ReduceOp::average:
      return one_rank_differs(rank, world_size, index) ? world_size : 0;
    case ReduceOp::product:
      return one_rank_differs(rank, world_size, index) ? 2 + i % 2 : 1;
    case ReduceOp::min:
    case ReduceOp::max:
      return (i * 7 + rank * 3) % 16;
    case ReduceOp::bit_and:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor:
      return (i * 31 + rank * 17) % 128;
  }
  return 0;
}

bool has_exact_inputs(ReduceOp op, DataType type, int world_size) {
  if (op != ReduceOp::average || type != DataType::float8_e5m2) return true;
  int odd_part = world_size;
  while (odd_part % 2 == 0) odd_part /= 2;
  return odd_part < 8;
}

void store_value(DataType type, int value, std::byte* where) {
  switch (type) {
    case DataType::float64:
      return put(static_cast<double>(value), where);
    case DataType::float32:
      return put(static_cast<float>(value), where);
    case DataType::float16:
      return put(small_float(value, 10, 15), where);
    case DataType::bfloat16:
      return put(small_float(value, 7, 127), where);
    case DataType::float8_e4m3fn:
      return put(static_cast<std::uint8_t>(small_float(value, 3, 7)), where);
    case DataType::float8_e5m2:
      return put(static_cast<std::uint8_t>(small_float(value, 2, 15)), where);
    case DataType::int8:
    case DataType::uint8:
    case DataType::boolean:
      return put(static_cast<std::uint8_t>(value), where);
    case DataType::int16:
    case DataType::uint16:
      return put(static_cast<std::uint16_t>(value), where);
    case DataType::int32:
    case DataType::uint32:
      return put(static_cast<std::uint32_t>(value), where);
    case DataType::int64:
    case DataType::uint64:
      return put(static_cast<std::uint64_t>(value), where);
    case DataType::complex64:
      put(static_cast<float>(value), where);
      return put(0.0F, where + sizeof(float));
    case DataType::complex128:
      put(static_cast<double>(value), where);
      return put(0.0, where + sizeof(double));
  }
}

Bytes exact_input(ReduceOp op, DataType type, int rank, int world_size, std::size_t count) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    store_value(type, exact_element(op, type, rank, world_size, i), bytes.data() + i * size_of(type));
  }
  return bytes;
}

Bytes exact_result(ReduceOp op, DataType type, int world_size, std::size_t count, int factor) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    int value = exact_element(op, type, 0, world_size, i);
    for (int rank = 1; rank < world_size; ++rank) {
      value = combine(op, type, value, exact_element(op, type, rank, world_size, i));
    }
    if (op == ReduceOp::average) value /= world_size;
    if (op == ReduceOp::premul_sum) value *= factor;
    store_value(type, value, bytes.data() + i * size_of(type));
  }
  return bytes;
}

std::vector<TypeAndOp> all_reductions() {
  std::vector<TypeAndOp> all;
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kReduceOps; ++op) {
      const TypeAndOp pair{static_cast<DataType>(type), static_cast<ReduceOp>(op)};
      if (supports_reduction(pair.type, pair.op)) all.push_back(pair);
    }
  }
  return all;
}

}  // namespace ucxring::testing
