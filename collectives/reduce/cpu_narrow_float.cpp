// Kernels of float16, bfloat16 and the 8-bit floating types, which compute in float.
#include "collectives/reduce/cpu_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/cpu_narrow_float.cpp"
#include "hwy/foreach_target.h"

#include "collectives/reduce/cpu_loops-inl.hpp"
#include "collectives/reduce/narrow_float-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ucxring::cpu {
namespace HWY_NAMESPACE {

/// Codec of a narrow format: float lanes in registers, the format in memory.
template <class F>
struct Narrow {
  using Lane = float;
  static constexpr std::size_t kBytes = sizeof(typename F::Storage);
  using Tag = hn::ScalableTag<float>;
  using Bits = hn::RebindToSigned<Tag>;
  using Stored = hn::Rebind<typename F::Storage, Tag>;

  static HWY_INLINE Tag tag() { return {}; }
  template <class V>
  static HWY_INLINE auto decode(V stored) {
    return decode_bits<F>(Bits(), hn::PromoteTo(Bits(), stored));
  }
  template <class V>
  static HWY_INLINE auto encode(V value) {
    return hn::DemoteTo(Stored(), encode_bits<F>(Bits(), value));
  }
};

/// A float's upper half is a bfloat16. A signalling NaN stays one; the operation or the rounding quiets it.
template <>
struct Narrow<Bfloat16> {
  using Lane = float;
  static constexpr std::size_t kBytes = 2;
  using Tag = hn::ScalableTag<float>;
  using Words = hn::RebindToUnsigned<Tag>;

  static HWY_INLINE Tag tag() { return {}; }
#if HWY_TARGET == HWY_SCALAR
  using Stored = hn::Rebind<std::uint16_t, Tag>;
  template <class V>
  static HWY_INLINE auto decode(V stored) {
    return hn::BitCast(Tag(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), stored)));
  }
  template <class V>
  static HWY_INLINE auto encode(V value) {
    const hn::RebindToSigned<Tag> di;
    return hn::DemoteTo(Stored(), hn::BitCast(di, hn::ShiftRight<16>(round_to_bfloat16(Words(), value))));
  }
#else
  // The elements at even and at odd places apart: nothing crosses lanes.
  using Stored = hn::Repartition<std::uint16_t, Tag>;
  static HWY_INLINE auto upper_half() { return hn::Set(Words(), 0xffff0000U); }
  template <class V>
  static HWY_INLINE auto decode(V stored) {
    const auto words = hn::BitCast(Words(), stored);
    return Pair<hn::VFromD<Tag>>{hn::BitCast(Tag(), hn::ShiftLeft<16>(words)),
                                 hn::BitCast(Tag(), hn::And(words, upper_half()))};
  }
  template <class V>
  static HWY_INLINE auto encode(Pair<V> value) {
    const auto even = hn::ShiftRight<16>(round_to_bfloat16(Words(), value.even));
    const auto odd = hn::And(round_to_bfloat16(Words(), value.odd), upper_half());
    return hn::BitCast(Stored(), hn::Or(even, odd));
  }
#endif
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
/// The F16C instructions round to nearest even and treat NaNs as `encode_bits` and `decode_bits` do.
template <>
struct Narrow<Float16> {
  using Lane = float;
  static constexpr std::size_t kBytes = 2;
  using Tag = hn::ScalableTag<float>;
  using Stored = hn::Rebind<std::uint16_t, Tag>;
  using Half = hn::Rebind<hwy::float16_t, Tag>;

  static HWY_INLINE Tag tag() { return {}; }
  template <class V>
  static HWY_INLINE auto decode(V stored) {
    return hn::PromoteTo(Tag(), hn::BitCast(Half(), stored));
  }
  template <class V>
  static HWY_INLINE auto encode(V value) {
    return hn::BitCast(Stored(), hn::DemoteTo(Half(), value));
  }
};
#endif

std::span<const Row> narrow_float_rows() {
  static constexpr std::array<Row, 4> kRows{floating_row<Narrow<Float16>>(DataType::float16),
                                            floating_row<Narrow<Bfloat16>>(DataType::bfloat16),
                                            floating_row<Narrow<Float8E4m3fn>>(DataType::float8_e4m3fn),
                                            floating_row<Narrow<Float8E5m2>>(DataType::float8_e5m2)};
  return kRows;
}

}  // namespace HWY_NAMESPACE
}  // namespace ucxring::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ucxring::cpu {

HWY_EXPORT(narrow_float_rows);
std::span<const Row> narrow_float_rows() { return HWY_DYNAMIC_DISPATCH(narrow_float_rows)(); }

}  // namespace ucxring::cpu
#endif
