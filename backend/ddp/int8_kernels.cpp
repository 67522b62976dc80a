#include "backend/ddp/int8_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/ddp/int8_kernels.cpp"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ucxring::ddp::int8 {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;
template <class D>
using Integers = hn::Rebind<std::int32_t, D>;
template <class D>
using Codes = hn::Rebind<std::int8_t, D>;

constexpr float kLargestCode = 127;
/// Of a block that is not sent as zeros: the reciprocal of its scale must be finite.
constexpr float kLeastMagnitude = 1e-35F;

/// body(tag, i) for all numbers i < count: whole vectors, then one by one what is left of the block.
template <class Body>
HWY_INLINE void for_each_vector(std::int64_t count, Body body) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(d, i);
  for (; i < count; ++i) body(One(), i);
}

/// The codes at `from` as floats, each times `factor`.
template <class D>
HWY_INLINE hn::VFromD<D> scaled(D d, const std::int8_t* from, float factor) {
  const auto codes = hn::PromoteTo(Integers<D>(), hn::LoadU(Codes<D>(), from));
  return hn::Mul(hn::ConvertTo(d, codes), hn::Set(d, factor));
}

/// Adds `added` (if not null) to the numbers at `values`; returns the bits of their magnitudes.
template <class D>
HWY_INLINE hn::VFromD<Integers<D>> add(D d, float* values, const float* added) {
  auto value = hn::LoadU(d, values);
  if (added != nullptr) {
    value = hn::Add(value, hn::LoadU(d, added));
    hn::StoreU(value, d, values);
  }
  return hn::BitCast(Integers<D>(), hn::Abs(value));
}

/// The same for a block; returns the largest magnitude, NaN if one is NaN. The order of the bits as integers
/// is that of the magnitudes, with NaN above infinity.
HWY_INLINE float add_block(float* values, const float* added, std::int64_t count) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto from = [added](std::int64_t i) { return added == nullptr ? nullptr : added + i; };
  auto most = hn::Zero(Integers<Floats>());
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) most = hn::Max(most, add(d, values + i, from(i)));
  std::int32_t bits = hn::GetLane(hn::MaxOfLanes(Integers<Floats>(), most));
  for (; i < count; ++i) bits = std::max(bits, hn::GetLane(add(One(), values + i, from(i))));
  return std::bit_cast<float>(bits);
}

/// Writes the codes of the values and leaves their errors.
HWY_INLINE void quantise(float* values, std::int64_t count, float scale, std::int8_t* codes) {
  const float inverse = 1 / scale;
  for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    using D = decltype(d);
    const auto value = hn::LoadU(d, values + i);
    const auto rounded = hn::NearestInt(hn::Mul(value, hn::Set(d, inverse)));
    hn::StoreU(hn::DemoteTo(Codes<D>(), rounded), Codes<D>(), codes + i);
    hn::StoreU(hn::Sub(value, hn::Mul(hn::ConvertTo(d, rounded), hn::Set(d, scale))), d, values + i);
  });
}

/// Encodes one block of `count` numbers, which are at most its size.
HWY_INLINE void encode_block(const Message& message, std::int64_t index, float* values, const float* added,
                             std::int64_t count) {
  std::int8_t* const codes = message.codes(index);
  const float scale =
      std::max(add_block(values, added, count), kLeastMagnitude) / kLargestCode;  // NaN stays NaN
  message.scale(index) = scale;
  const std::int64_t written = std::isfinite(scale) ? count : 0;
  quantise(values, written, scale, codes);
  std::fill(codes + written, codes + message.size, std::int8_t{0});
}

/// How many of `count` numbers are in block `index`.
HWY_INLINE std::int64_t numbers_in(const Message& message, std::int64_t index, std::int64_t count) {
  return std::clamp<std::int64_t>(count - index * message.size, 0, message.size);
}

/// `array` from block `index` on, which may begin behind its end if it has no number.
template <typename T>
HWY_INLINE T* at(T* array, const Message& message, std::int64_t index, std::int64_t numbers) {
  return array == nullptr || numbers == 0 ? nullptr : array + index * message.size;
}

void encode(const Message& message, Span span, float* values, const float* added, std::int64_t count) {
  for (std::int64_t index = span.first; index < span.last; ++index) {
    const std::int64_t numbers = numbers_in(message, index, count);
    encode_block(message, index, at(values, message, index, numbers), at(added, message, index, numbers),
                 numbers);
  }
}

/// Writes the sum of block `index` of all rows, times `factor`, to `total`.
HWY_INLINE void sum_block(const Message& from, std::int64_t index, float factor, float* total) {
  for (std::int64_t row = 0; row < from.rows; ++row) {
    const std::int8_t* const codes = from.codes(row * from.blocks + index);
    const float scale = from.scale(row * from.blocks + index) * factor;
    for_each_vector(from.size, [&](auto d, std::int64_t i) HWY_ATTR {
      const auto numbers = scaled(d, codes + i, scale);
      hn::StoreU(row == 0 ? numbers : hn::Add(hn::LoadU(d, total + i), numbers), d, total + i);
    });
  }
}

void average(const Message& from, Span span, float factor, float* total, const float* added,
             const Message& to) {
  for (std::int64_t index = span.first; index < span.last; ++index) {
    float* const block = total + index * from.size;
    sum_block(from, index, factor, block);
    encode_block(to, index, block, at(added, to, index, to.size), to.size);
  }
}

void decode(const Message& message, Span span, float* values, float* kept, std::int64_t count) {
  for (std::int64_t index = span.first; index < span.last; ++index) {
    const std::int64_t numbers = numbers_in(message, index, count);
    const std::int8_t* const codes = message.codes(index);
    const float scale = message.scale(index);
    float* const block = at(values, message, index, numbers);
    if (kept != nullptr && numbers != 0)
      std::memcpy(kept + index * message.size, block, static_cast<std::size_t>(numbers) * sizeof(float));
    for_each_vector(numbers, [&](auto d, std::int64_t i)
                                 HWY_ATTR { hn::StoreU(scaled(d, codes + i, scale), d, block + i); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ucxring::ddp::int8
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ucxring::ddp::int8 {

HWY_EXPORT(encode);
HWY_EXPORT(average);
HWY_EXPORT(decode);

void encode(const Message& message, Span span, float* values, const float* added, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(encode)(message, span, values, added, count);
}

void average(const Message& from, Span span, float factor, float* total, const float* added,
             const Message& to) {
  HWY_DYNAMIC_DISPATCH(average)(from, span, factor, total, added, to);
}

void decode(const Message& message, Span span, float* values, float* kept, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(decode)(message, span, values, kept, count);
}

}  // namespace ucxring::ddp::int8
#endif
