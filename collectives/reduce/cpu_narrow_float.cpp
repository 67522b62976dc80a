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
  static HWY_INLINE auto load(const std::byte* from) {
    const auto bits = hn::PromoteTo(Bits(), load_bytes(Stored(), from));
    if constexpr (std::is_same_v<F, Bfloat16>) {
      return decode_bfloat16(Bits(), bits);
    } else {
      return decode<F>(Bits(), bits);
    }
  }
  template <class V>
  static HWY_INLINE void store(V value, std::byte* to) {
    if constexpr (std::is_same_v<F, Bfloat16>) {
      store_bytes(Stored(), hn::DemoteTo(Stored(), encode_bfloat16(Bits(), value)), to);
    } else {
      store_bytes(Stored(), hn::DemoteTo(Stored(), encode<F>(Bits(), value)), to);
    }
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
/// The F16C instructions round to nearest even and treat NaNs as `encode` and `decode` do.
template <>
struct Narrow<Float16> {
  using Lane = float;
  static constexpr std::size_t kBytes = 2;
  using Tag = hn::ScalableTag<float>;
  using Stored = hn::Rebind<std::uint16_t, Tag>;
  using Half = hn::Rebind<hwy::float16_t, Tag>;

  static HWY_INLINE Tag tag() { return {}; }
  static HWY_INLINE auto load(const std::byte* from) {
    return hn::PromoteTo(Tag(), hn::BitCast(Half(), load_bytes(Stored(), from)));
  }
  template <class V>
  static HWY_INLINE void store(V value, std::byte* to) {
    store_bytes(Stored(), hn::BitCast(Stored(), hn::DemoteTo(Half(), value)), to);
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
