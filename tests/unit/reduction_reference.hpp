// Scalar reference of every (dtype, op) pair, one element at a time, written apart from the kernels it
// checks: narrow formats are decoded and rounded with ldexp and nearbyint, never with bit tricks.
#pragma once

#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "collectives/reduce/types.hpp"

namespace ucxring::reference {

/// Parameters of a narrow floating format.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] std::uint32_t sign() const { return 1U << (exponent_bits + mantissa_bits); }
  [[nodiscard]] std::uint32_t infinity() const { return ((1U << exponent_bits) - 1) << mantissa_bits; }
  /// The largest magnitude that is a number.
  [[nodiscard]] std::uint32_t last() const { return has_infinity ? infinity() - 1 : sign() - 2; }
  [[nodiscard]] std::uint32_t canonical_nan() const {
    return mantissa_bits < 7 ? sign() - 1 : infinity() | (1U << (mantissa_bits - 1));
  }
};

inline constexpr Format kFloat16{5, 10, true};
inline constexpr Format kBfloat16{8, 7, true};
inline constexpr Format kFloat8E4m3fn{4, 3, false};
inline constexpr Format kFloat8E5m2{5, 2, true};

/// Value of a magnitude below or at `last() + 1`.
inline double magnitude_value(Format format, std::uint32_t magnitude) {
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const std::uint32_t mantissa = magnitude & ((1U << format.mantissa_bits) - 1);
  const std::uint32_t digits = exponent == 0 ? mantissa : mantissa | (1U << format.mantissa_bits);
  return std::ldexp(digits, (exponent == 0 ? 1 : exponent) - format.bias() - format.mantissa_bits);
}

inline float decode(Format format, std::uint32_t bits) {
  const std::uint32_t magnitude = bits & (format.sign() - 1);
  double value = std::numeric_limits<double>::quiet_NaN();
  if (magnitude <= format.last()) value = magnitude_value(format, magnitude);
  if (format.has_infinity && magnitude == format.infinity()) value = std::numeric_limits<double>::infinity();
  return static_cast<float>((bits & format.sign()) != 0 ? -value : value);
}

inline std::uint32_t encode(Format format, float value) {
  const std::uint32_t sign = std::signbit(value) ? format.sign() : 0;
  if (std::isnan(value)) return sign | format.canonical_nan();
  const double magnitude = std::fabs(static_cast<double>(value));
  const std::uint32_t overflow = format.has_infinity ? format.infinity() : format.canonical_nan();
  if (std::isinf(magnitude)) return sign | overflow;
  const int lowest = 1 - format.bias();
  const int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
  const double digits = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const std::uint64_t bits = (static_cast<std::uint64_t>(exponent - lowest) << format.mantissa_bits) +
                             static_cast<std::uint64_t>(digits);
  return sign | (bits > format.last() ? overflow : static_cast<std::uint32_t>(bits));
}

/// min or max that propagates NaN and orders −0 before +0.
template <typename T>
T extreme(bool minimum, T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == b) return std::signbit(a) == minimum ? a : b;
  return (a < b) == minimum ? a : b;
}

template <typename T>
T floating(ReduceOp op, T a, T b) {
  if (op == ReduceOp::product) return a * b;
  if (op == ReduceOp::min || op == ReduceOp::max) return extreme(op == ReduceOp::min, a, b);
  return a + b;
}

template <typename T>
T integer(ReduceOp op, T a, T b) {
  using Wide = std::uint64_t;
  switch (op) {
    case ReduceOp::sum:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    case ReduceOp::product:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case ReduceOp::min:
      return a < b ? a : b;
    case ReduceOp::max:
      return a < b ? b : a;
    case ReduceOp::bit_and:
      return static_cast<T>(a & b);
    case ReduceOp::bit_or:
      return static_cast<T>(a | b);
    default:
      return static_cast<T>(a ^ b);
  }
}

inline std::uint8_t boolean(ReduceOp op, std::uint8_t left, std::uint8_t right) {
  const bool a = left != 0, b = right != 0;
  switch (op) {
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::bit_and:
      return a && b;
    case ReduceOp::bit_xor:
      return a != b;
    default:
      return a || b;
  }
}

/// (ac − bd) + (ad + bc)i without fused operations: each product is rounded to memory first.
template <typename T>
std::complex<T> complex(ReduceOp op, std::complex<T> a, std::complex<T> b) {
  if (op != ReduceOp::product) return {a.real() + b.real(), a.imag() + b.imag()};
  const volatile T ac = a.real() * b.real(), bd = a.imag() * b.imag();
  const volatile T ad = a.real() * b.imag(), bc = a.imag() * b.real();
  return {ac - bd, ad + bc};
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

/// Calls `visit` with a value of the C++ type that holds one element as a number, or with a `Format`.
template <typename Visit>
auto with_type(DataType type, Visit visit) {
  switch (type) {
    case DataType::float64:
      return visit(double{});
    case DataType::float32:
      return visit(float{});
    case DataType::float16:
      return visit(kFloat16);
    case DataType::bfloat16:
      return visit(kBfloat16);
    case DataType::float8_e4m3fn:
      return visit(kFloat8E4m3fn);
    case DataType::float8_e5m2:
      return visit(kFloat8E5m2);
    case DataType::int8:
      return visit(std::int8_t{});
    case DataType::uint8:
      return visit(std::uint8_t{});
    case DataType::int16:
      return visit(std::int16_t{});
    case DataType::int32:
      return visit(std::int32_t{});
    case DataType::int64:
      return visit(std::int64_t{});
    case DataType::uint16:
      return visit(std::uint16_t{});
    case DataType::uint32:
      return visit(std::uint32_t{});
    case DataType::uint64:
      return visit(std::uint64_t{});
    case DataType::boolean:
      return visit(bool{});
    case DataType::complex64:
      return visit(std::complex<float>{});
    default:
      return visit(std::complex<double>{});
  }
}

inline std::uint32_t load_narrow(Format format, const std::byte* from) {
  return format.mantissa_bits < 7 ? load<std::uint8_t>(from) : load<std::uint16_t>(from);
}

inline void store_narrow(Format format, std::uint32_t bits, std::byte* to) {
  if (format.mantissa_bits < 7) return store(static_cast<std::uint8_t>(bits), to);
  store(static_cast<std::uint16_t>(bits), to);
}

/// out = left ⊕ right for one element.
inline void combine(DataType type, ReduceOp op, const std::byte* left, const std::byte* right,
                    std::byte* out) {
  with_type(type, [&]<typename T>(T kind) {
    if constexpr (std::is_same_v<T, Format>) {
      const float a = decode(kind, load_narrow(kind, left)), b = decode(kind, load_narrow(kind, right));
      store_narrow(kind, encode(kind, floating(op, a, b)), out);
    } else if constexpr (std::is_same_v<T, bool>) {
      store(boolean(op, load<std::uint8_t>(left), load<std::uint8_t>(right)), out);
    } else if constexpr (std::is_integral_v<T>) {
      store(integer(op, load<T>(left), load<T>(right)), out);
    } else if constexpr (std::is_floating_point_v<T>) {
      store(floating(op, load<T>(left), load<T>(right)), out);
    } else {
      store(complex(op, load<T>(left), load<T>(right)), out);
    }
  });
}

/// out = source × parameter, or ÷ when `divide`, for one element of a floating or complex type.
inline void transform(DataType type, bool divide, const std::byte* source, double parameter, std::byte* out) {
  const auto apply = [&]<typename T>(T value) {
    const T operand = static_cast<T>(parameter);
    return divide ? value / operand : value * operand;
  };
  with_type(type, [&]<typename T>(T kind) {
    if constexpr (std::is_same_v<T, Format>) {
      store_narrow(kind, encode(kind, apply(decode(kind, load_narrow(kind, source)))), out);
    } else if constexpr (std::is_floating_point_v<T>) {
      store(apply(load<T>(source)), out);
    } else if constexpr (!std::is_integral_v<T>) {
      const T value = load<T>(source);
      store(T{apply(value.real()), apply(value.imag())}, out);
    }
  });
}

/// out = (sources[0] ⊕ sources[1] ⊕ …) ÷ divisor for one element; a divisor of 1 divides nothing. Narrow
/// types stay floats until the end.
inline void fold(DataType type, ReduceOp op, const std::vector<const std::byte*>& sources, double divisor,
                 std::byte* out) {
  with_type(type, [&]<typename T>(T kind) {
    if constexpr (std::is_same_v<T, Format>) {
      float value = decode(kind, load_narrow(kind, sources[0]));
      for (std::size_t k = 1; k < sources.size(); ++k) {
        value = floating(op, value, decode(kind, load_narrow(kind, sources[k])));
      }
      store_narrow(kind, encode(kind, value / static_cast<float>(divisor)), out);
    } else {
      std::memcpy(out, sources[0], size_of(type));
      for (std::size_t k = 1; k < sources.size(); ++k) combine(type, op, out, sources[k], out);
      if (divisor != 1.0) transform(type, true, out, divisor, out);
    }
  });
}

/// Whether two elements are the same bits, or both NaN: which NaN a sum gives is left to the hardware.
inline bool same(DataType type, const std::byte* a, const std::byte* b) {
  return std::memcmp(a, b, size_of(type)) == 0 || with_type(type, [&]<typename T>(T kind) {
           const auto equal = [](auto x, auto y) {
             return (std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0;
           };
           if constexpr (std::is_same_v<T, Format>) {
             return std::isnan(decode(kind, load_narrow(kind, a))) &&
                    std::isnan(decode(kind, load_narrow(kind, b)));
           } else if constexpr (std::is_floating_point_v<T>) {
             return equal(load<T>(a), load<T>(b));
           } else if constexpr (!std::is_integral_v<T>) {
             return equal(load<T>(a).real(), load<T>(b).real()) &&
                    equal(load<T>(a).imag(), load<T>(b).imag());
           } else {
             return false;
           }
         });
}

}  // namespace ucxring::reference
