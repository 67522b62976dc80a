// Loops shared by the kernels; included once per instruction set by Highway's foreach_target, hence the
// toggle guard. A *codec* says how elements are loaded into the lanes that are computed with, and stored
// again; an *operation* works on those lanes. Loads and stores go through bytes: callers' pointers have no
// alignment.
#if defined(UCXRING_CPU_LOOPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef UCXRING_CPU_LOOPS_INL
#undef UCXRING_CPU_LOOPS_INL
#else
#define UCXRING_CPU_LOOPS_INL
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collectives/reduce/cpu_kernels.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ucxring::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::VFromD<D> load_bytes(D d, const std::byte* from) {
#if HWY_TARGET == HWY_SCALAR
  hn::TFromD<D> lane;
  std::memcpy(&lane, from, sizeof lane);
  return hn::Set(d, lane);
#else
  const hn::Repartition<std::uint8_t, D> d8;
  return hn::BitCast(d, hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(from)));
#endif
}

template <class D>
HWY_INLINE void store_bytes(D, hn::VFromD<D> value, std::byte* to) {
#if HWY_TARGET == HWY_SCALAR
  const hn::TFromD<D> lane = hn::GetLane(value);
  std::memcpy(to, &lane, sizeof lane);
#else
  const hn::Repartition<std::uint8_t, D> d8;
  hn::StoreU(hn::BitCast(d8, value), d8, reinterpret_cast<std::uint8_t*>(to));
#endif
}

/// Codec of types that are computed with as they are stored.
template <typename T>
struct Direct {
  using Lane = T;
  static constexpr std::size_t kBytes = sizeof(T);
  static HWY_INLINE hn::ScalableTag<T> tag() { return {}; }
  static HWY_INLINE auto load(const std::byte* from) { return load_bytes(tag(), from); }
  template <class V>
  static HWY_INLINE void store(V value, std::byte* to) {
    store_bytes(tag(), value, to);
  }
};

/// Room for one vector's elements of the codec, used for the last, incomplete vector of an array.
struct Tail {
  alignas(64) std::byte bytes[HWY_MAX_BYTES] = {};
};

/// The `CombineKernel` of a codec and a binary operation.
template <class Codec, class Op>
void combine(void* target, const void* left, const void* right, std::size_t count) {
  auto* out = static_cast<std::byte*>(target);
  const auto* a = static_cast<const std::byte*>(left);
  const auto* b = static_cast<const std::byte*>(right);
  const auto d = Codec::tag();
  const std::size_t vector = hn::Lanes(d) * Codec::kBytes;
  const std::size_t bytes = count * Codec::kBytes;
  std::size_t i = 0;
  for (; i + 2 * vector <= bytes; i += 2 * vector) {
    const auto first = Op::apply(d, Codec::load(a + i), Codec::load(b + i));
    const auto second = Op::apply(d, Codec::load(a + i + vector), Codec::load(b + i + vector));
    Codec::store(first, out + i);
    Codec::store(second, out + i + vector);
  }
  for (; i < bytes; i += vector) {
    if (i + vector <= bytes) {
      Codec::store(Op::apply(d, Codec::load(a + i), Codec::load(b + i)), out + i);
    } else {
      Tail x, y;
      std::memcpy(x.bytes, a + i, bytes - i);
      std::memcpy(y.bytes, b + i, bytes - i);
      Codec::store(Op::apply(d, Codec::load(x.bytes), Codec::load(y.bytes)), x.bytes);
      std::memcpy(out + i, x.bytes, bytes - i);
    }
  }
}

/// target[i] = Op(source[i], parameter): the `ScaleKernel` and `DivideKernel` of a codec.
template <class Codec, class Op>
void transform(void* target, const void* source, double parameter, std::size_t count) {
  auto* out = static_cast<std::byte*>(target);
  const auto* in = static_cast<const std::byte*>(source);
  const auto d = Codec::tag();
  const auto operand = hn::Set(d, static_cast<typename Codec::Lane>(parameter));
  const std::size_t vector = hn::Lanes(d) * Codec::kBytes;
  const std::size_t bytes = count * Codec::kBytes;
  std::size_t i = 0;
  for (; i + vector <= bytes; i += vector) Codec::store(Op::apply(d, Codec::load(in + i), operand), out + i);
  if (i < bytes) {
    Tail x;
    std::memcpy(x.bytes, in + i, bytes - i);
    Codec::store(Op::apply(d, Codec::load(x.bytes), operand), x.bytes);
    std::memcpy(out + i, x.bytes, bytes - i);
  }
}

struct Sum {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};

struct Product {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Mul(a, b);
  }
};

struct Quotient {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Div(a, b);
  }
};

/// Minimum of floating lanes. Equal operands differ at most in the sign of zero: their OR is −0 if either is.
struct FloatMin {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V a, V b) {
    const V smaller = hn::IfThenElse(hn::Lt(a, b), a, b);
    return quiet(d, a, b, hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), smaller));
  }
  /// `value`, or the canonical NaN where either operand is NaN.
  template <class D, class V>
  static HWY_INLINE V quiet(D d, V a, V b, V value) {
    using T = hn::TFromD<D>;
    const hn::RebindToUnsigned<D> du;
    constexpr auto kNan = sizeof(T) == 4 ? std::uint64_t{0x7fc00000} : std::uint64_t{0x7ff8000000000000};
    const V nan = hn::BitCast(d, hn::Set(du, static_cast<hn::TFromD<decltype(du)>>(kNan)));
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), nan, value);
  }
};

/// Maximum of floating lanes, the mirror image of `FloatMin`.
struct FloatMax {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V a, V b) {
    const V larger = hn::IfThenElse(hn::Gt(a, b), a, b);
    return FloatMin::quiet(d, a, b, hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), larger));
  }
};

template <class Codec>
void divide(void* target, const void* source, double divisor, std::size_t count) {
  if (divisor != 1.0) return transform<Codec, Quotient>(target, source, divisor, count);
  if (target != source && count != 0) std::memcpy(target, source, count * Codec::kBytes);
}

/// The row of a real floating type.
template <class Codec>
constexpr Row floating_row(DataType type) {
  Row row{type};
  row[ReduceOp::sum] = {combine<Codec, Sum>};
  row[ReduceOp::average] = {combine<Codec, Sum>, nullptr, divide<Codec>};
  row[ReduceOp::product] = {combine<Codec, Product>};
  row[ReduceOp::min] = {combine<Codec, FloatMin>};
  row[ReduceOp::max] = {combine<Codec, FloatMax>};
  row[ReduceOp::premul_sum] = {combine<Codec, Sum>, transform<Codec, Product>};
  return row;
}

}  // namespace HWY_NAMESPACE
}  // namespace ucxring::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggle guard
