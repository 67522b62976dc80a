// Kernels of the integer types and of bool.
#include "collectives/reduce/cpu_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/cpu_integer.cpp"
#include "hwy/foreach_target.h"

#include "collectives/reduce/cpu_loops-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ucxring::cpu {
namespace HWY_NAMESPACE {

struct Min {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Min(a, b);
  }
};

struct Max {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Max(a, b);
  }
};

struct BitAnd {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::And(a, b);
  }
};

struct BitOr {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Or(a, b);
  }
};

struct BitXor {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Xor(a, b);
  }
};

/// A bit operation on truth values: each operand becomes 0 or 1 first.
template <class BitOp>
struct Logical {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V a, V b) {
    const V one = hn::Set(d, 1);
    return BitOp::apply(d, hn::Min(a, one), hn::Min(b, one));
  }
};

/// Product of types whose lanes Highway cannot multiply on every instruction set, left to the compiler.
template <typename T>
void multiply(void* target, const void* left, const void* right, std::size_t count) {
  auto* out = static_cast<std::byte*>(target);
  const auto* a = static_cast<const std::byte*>(left);
  const auto* b = static_cast<const std::byte*>(right);
  for (std::size_t i = 0; i < count * sizeof(T); i += sizeof(T)) {
    T x, y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    x = static_cast<T>(1U * x * y);  // never in signed int, to which narrow operands promote
    std::memcpy(out + i, &x, sizeof x);
  }
}

template <typename Unsigned>
constexpr Reduction product() {
  if constexpr (sizeof(Unsigned) == 2 || sizeof(Unsigned) == 4) {
    return reduction<Direct<Unsigned>, Product>();
  } else {
    return {multiply<Unsigned>, nullptr, nullptr, fold_by_slices<multiply<Unsigned>, sizeof(Unsigned)>};
  }
}

/// Bit operations know no elements: those of bytes serve all types.
template <class Op, typename T>
constexpr Reduction bitwise() {
  using Byte = Direct<std::uint8_t>;
  return {combine_parts<combine<Byte, Op>, sizeof(T)>, nullptr, nullptr,
          fold_parts<fold<Byte, Op>, sizeof(T)>};
}

/// Wrapping sum and product do not depend on the sign: they share the unsigned kernels.
template <typename T>
constexpr Row integer_row(DataType type) {
  using Unsigned = std::make_unsigned_t<T>;
  Row row{type};
  row[ReduceOp::sum] = reduction<Direct<Unsigned>, Sum>();
  row[ReduceOp::product] = product<Unsigned>();
  row[ReduceOp::min] = reduction<Direct<T>, Min>();
  row[ReduceOp::max] = reduction<Direct<T>, Max>();
  row[ReduceOp::bit_and] = bitwise<BitAnd, T>();
  row[ReduceOp::bit_or] = bitwise<BitOr, T>();
  row[ReduceOp::bit_xor] = bitwise<BitXor, T>();
  return row;
}

constexpr Row bool_row() {
  constexpr Reduction kAnd = reduction<Direct<std::uint8_t>, Logical<BitAnd>>();
  constexpr Reduction kOr = reduction<Direct<std::uint8_t>, Logical<BitOr>>();
  Row row{DataType::boolean};
  for (const ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::bit_and}) row[op] = kAnd;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bit_or}) row[op] = kOr;
  row[ReduceOp::bit_xor] = reduction<Direct<std::uint8_t>, Logical<BitXor>>();
  return row;
}

std::span<const Row> integer_rows() {
  static constexpr std::array<Row, 9> kRows{integer_row<std::int8_t>(DataType::int8),
                                            integer_row<std::uint8_t>(DataType::uint8),
                                            integer_row<std::int16_t>(DataType::int16),
                                            integer_row<std::int32_t>(DataType::int32),
                                            integer_row<std::int64_t>(DataType::int64),
                                            integer_row<std::uint16_t>(DataType::uint16),
                                            integer_row<std::uint32_t>(DataType::uint32),
                                            integer_row<std::uint64_t>(DataType::uint64),
                                            bool_row()};
  return kRows;
}

}  // namespace HWY_NAMESPACE
}  // namespace ucxring::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ucxring::cpu {

HWY_EXPORT(integer_rows);
std::span<const Row> integer_rows() { return HWY_DYNAMIC_DISPATCH(integer_rows)(); }

}  // namespace ucxring::cpu
#endif
