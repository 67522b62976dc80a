// Conversions between float lanes and the 16-bit and 8-bit floating types, for Highway's foreach_target.
// Written with integer operations because Highway 1.0 truncates bfloat16 and rounds float16 differently from
// target to target. The method is Fabian Giesen's (https://gist.github.com/rygorous/2156668), which PyTorch's
// c10/util/Float8_*.h follows too. Overflow of e4m3fn gives NaN, where torch 2.13 saturates at 448: a sum
// that overflowed must show.
#if defined(UCXRING_NARROW_FLOAT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef UCXRING_NARROW_FLOAT_INL
#undef UCXRING_NARROW_FLOAT_INL
#else
#define UCXRING_NARROW_FLOAT_INL
#endif

#include <cstddef>
#include <cstdint>

#include "collectives/reduce/cpu_loops-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ucxring::cpu {
namespace HWY_NAMESPACE {

/// A floating format of one sign bit, `kExponent` and `kMantissa` bits; all fields below derive from them.
template <typename StorageType, int kExponent, int kMantissa, bool kInfinity>
struct Format {
  using Storage = StorageType;
  static constexpr int kShift = 23 - kMantissa;                  ///< float mantissa bits dropped
  static constexpr int kSignShift = 31 - kExponent - kMantissa;  ///< distance to float's sign bit
  static constexpr std::int32_t kMagnitude = (1 << (kExponent + kMantissa)) - 1;  ///< all bits but the sign
  static constexpr std::int32_t kFirstNormal = 1 << kMantissa;
  static constexpr std::int32_t kRebias = (128 - (1 << (kExponent - 1))) << 23;  ///< float's bias minus ours
  static constexpr bool kHasInfinity = kInfinity;
  static constexpr std::int32_t kInfinityBits = kMagnitude & ~(kFirstNormal - 1);
  /// The first float magnitude beyond the format's exponents; e4m3fn gives up the last mantissa for its only
  /// NaN.
  static constexpr std::int32_t kOverflow =
      kInfinity ? (kInfinityBits << kShift) + kRebias : (kMagnitude << kShift) + kRebias;
  /// 8-bit types have one NaN per sign, as in torch; 16-bit ones keep the upper payload, as the hardware
  /// does.
  static constexpr bool kKeepsPayload = sizeof(Storage) == 2;
  static constexpr std::int32_t kNan = kKeepsPayload ? kInfinityBits | (kFirstNormal >> 1) : kMagnitude;
};

using Float16 = Format<std::uint16_t, 5, 10, true>;
using Float8E4m3fn = Format<std::uint8_t, 4, 3, false>;
using Float8E5m2 = Format<std::uint8_t, 5, 2, true>;

/// The upper half of a float; its conversions are simpler than the rest.
struct Bfloat16 {
  using Storage = std::uint16_t;
};

inline constexpr std::int32_t kFloatInfinity = 0x7f800000;
inline constexpr std::int32_t kFloatQuietBit = 0x00400000;

/// Floats equal to the format's bits held in the int32 lanes `bits`; signalling NaNs become quiet.
template <class F, class DI, class V>
HWY_INLINE auto decode_bits(DI di, V bits) {
  const hn::RebindToFloat<DI> df;
  const V magnitude = hn::And(bits, hn::Set(di, F::kMagnitude));
  const V sign = hn::ShiftLeft<F::kSignShift>(hn::Xor(bits, magnitude));
  V value = hn::Add(hn::ShiftLeft<F::kShift>(magnitude), hn::Set(di, F::kRebias));
  // Subnormals: give them the exponent of the first normal, then subtract its implicit bit in floating point.
  const V first = hn::Set(di, F::kRebias + (1 << 23));
  const auto exact = hn::Sub(hn::BitCast(df, hn::Add(value, hn::Set(di, 1 << 23))), hn::BitCast(df, first));
  value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, F::kFirstNormal)), hn::BitCast(di, exact), value);
  if constexpr (F::kHasInfinity) {
    const V special = hn::Or(value, hn::Set(di, kFloatInfinity));
    value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, F::kInfinityBits - 1)), special, value);
  }
  const V nan = hn::Or(value, hn::Set(di, kFloatInfinity | kFloatQuietBit));
  constexpr std::int32_t kLastNumber = F::kHasInfinity ? F::kInfinityBits : F::kMagnitude - 1;
  value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, kLastNumber)), nan, value);
  return hn::BitCast(df, hn::Or(value, sign));
}

/// Float magnitudes rounded to the format's subnormals: adding a power of two whose last bit has the weight
/// of theirs lets the floating-point unit do the rounding.
template <class F, class DI, class V>
HWY_INLINE V encode_subnormal(DI di, V magnitude) {
  const hn::RebindToFloat<DI> df;
  const V aligner = hn::Set(di, F::kRebias + ((F::kShift + 1) << 23));
  const auto aligned = hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, aligner));
  return hn::Sub(hn::BitCast(di, aligned), aligner);
}

/// Format bits of NaN lanes; `magnitude` holds the float's bits without the sign.
template <class F, class DI, class V>
HWY_INLINE V encode_nan(DI di, V magnitude) {
  const V nan = hn::Set(di, F::kNan);
  if constexpr (!F::kKeepsPayload) return nan;
  return hn::Or(nan, hn::And(hn::ShiftRight<F::kShift>(magnitude), hn::Set(di, F::kFirstNormal - 1)));
}

/// The format's bits of the float lanes `value` as int32 lanes, rounded to nearest even. Overflow gives
/// infinity, in e4m3fn, which has none, NaN.
template <class F, class DI, class VF>
HWY_INLINE auto encode_bits(DI di, VF value) {
  const hn::RebindToUnsigned<DI> du;
  const auto bits = hn::BitCast(di, value);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto sign = hn::BitCast(di, hn::ShiftRight<F::kSignShift>(hn::BitCast(du, hn::Xor(bits, magnitude))));
  const auto odd = hn::And(hn::ShiftRight<F::kShift>(magnitude), hn::Set(di, 1));
  const auto bias = hn::Set(di, (1 << (F::kShift - 1)) - 1 - F::kRebias);
  auto result = hn::ShiftRight<F::kShift>(hn::Add(hn::Add(magnitude, bias), odd));
  const auto subnormal = hn::Lt(magnitude, hn::Set(di, F::kRebias + (1 << 23)));
  result = hn::IfThenElse(subnormal, encode_subnormal<F>(di, magnitude), result);
  const auto overflow = hn::Gt(magnitude, hn::Set(di, F::kOverflow - 1));
  result = hn::IfThenElse(overflow, hn::Set(di, F::kHasInfinity ? F::kInfinityBits : F::kNan), result);
  if constexpr (F::kHasInfinity) {
    const auto nan = hn::Gt(magnitude, hn::Set(di, kFloatInfinity));
    result = hn::IfThenElse(nan, encode_nan<F>(di, magnitude), result);
  }
  return hn::Or(result, sign);
}

/// Floats rounded to nearest even bfloat16, as the uint32 lanes whose upper halves are its bits.
template <class DU, class VF>
HWY_INLINE auto round_to_bfloat16(DU du, VF value) {
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, static_cast<std::uint32_t>(kFloatQuietBit)));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), quiet, rounded);
}

}  // namespace HWY_NAMESPACE
}  // namespace ucxring::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggle guard
