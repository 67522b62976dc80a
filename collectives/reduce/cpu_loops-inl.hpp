// Loops shared by the kernels; included once per instruction set by Highway's foreach_target, hence the
// toggle guard. A *codec* says how stored elements become the lanes that are computed with, and back; an
// *operation* works on those lanes; an *access* moves stored elements between memory and a vector, through
// bytes: callers' pointers have no alignment.
#if defined(UCXRING_CPU_LOOPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef UCXRING_CPU_LOOPS_INL
#undef UCXRING_CPU_LOOPS_INL
#else
#define UCXRING_CPU_LOOPS_INL
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collectives/reduce/cpu_kernels.hpp"
#include "collectives/reduce/fold_by_slices.hpp"
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
  using Stored = hn::ScalableTag<T>;
  static HWY_INLINE Stored tag() { return {}; }
  template <class V>
  static HWY_INLINE V decode(V stored) {
    return stored;
  }
  template <class V>
  static HWY_INLINE V encode(V value) {
    return value;
  }
};

/// What a codec decodes one stored vector to when its lanes are twice as wide.
template <class V>
struct Pair {
  V even, odd;
};

/// a Op b, lane by lane.
template <class Op, class D, class V>
HWY_INLINE V apply(D d, V a, V b) {
  return Op::apply(d, a, b);
}
template <class Op, class D, class V>
HWY_INLINE Pair<V> apply(D d, Pair<V> a, Pair<V> b) {
  return {Op::apply(d, a.even, b.even), Op::apply(d, a.odd, b.odd)};
}
template <class Op, class D, class V>
HWY_INLINE Pair<V> apply(D d, Pair<V> a, V b) {
  return {Op::apply(d, a.even, b), Op::apply(d, a.odd, b)};
}

/// Access to whole vectors of a codec's elements in memory.
template <class Codec>
struct WholeVector {
  using Stored = typename Codec::Stored;
  static HWY_INLINE auto load(const std::byte* from) { return load_bytes(Stored(), from); }
  template <class V>
  static HWY_INLINE void store(V value, std::byte* to) {
    store_bytes(Stored(), value, to);
  }
};

/// Access to the elements behind the last whole vector, a few bytes at a time. They travel through an integer
/// register: a detour through memory would cost more than all the rest of a reduction of 8 bytes.
template <class Codec>
struct Word {
  using Stored = typename Codec::Stored;
  static constexpr std::size_t kMost = std::min<std::size_t>(8, hn::MaxLanes(Stored()) * Codec::kBytes);
  using Lane = hwy::UnsignedFromSize<kMost>;
  using Tag = hn::Repartition<Lane, Stored>;

  std::size_t size;  ///< bytes: a power of two, at most `kMost`, not less than the size of an element

  /// The largest word that fits into the `left` bytes to go.
  static HWY_INLINE Word of(std::size_t left) { return {left >= kMost ? kMost : std::bit_floor(left)}; }

  HWY_INLINE auto load(const std::byte* from) const {
    std::uint64_t word = 0;
    copy(&word, from);
    return hn::BitCast(Stored(), hn::Set(Tag(), static_cast<Lane>(word)));
  }
  template <class V>
  HWY_INLINE void store(V value, std::byte* to) const {
    const std::uint64_t word = hn::GetLane(hn::BitCast(Tag(), value));
    copy(to, &word);
  }

 private:
  /// `memcpy` of `size` bytes as one of at most four moves.
  HWY_INLINE void copy(void* to, const void* from) const {
    if (Codec::kBytes == 8 || size == 8) return void(std::memcpy(to, from, 8));
    if (Codec::kBytes == 4 || size == 4) return void(std::memcpy(to, from, 4));
    if (Codec::kBytes == 2 || size == 2) return void(std::memcpy(to, from, 2));
    std::memcpy(to, from, 1);
  }
};

/// Arguments of a fold.
struct Fold {
  std::byte* target;
  std::byte* second;  ///< null if there is only one target
  const void* const* sources;
  int source_count;
  double parameter;  ///< right operand of the finishing operation

  [[nodiscard]] HWY_INLINE const std::byte* source(int index) const {
    return static_cast<const std::byte*>(sources[index]);
  }
  template <class Access, class V>
  HWY_INLINE void store(Access access, V value, std::size_t offset) const {
    access.store(value, target + offset);
    if (second != nullptr) access.store(value, second + offset);
  }
};

/// What one access to each source reaches at `offset` bytes, combined, finished and stored.
template <class Codec, class Op, class Finish, class Access, class V>
HWY_INLINE void fold_one(const Fold& fold, Access access, V parameter, std::size_t offset) {
  const auto d = Codec::tag();
  auto value = Codec::decode(access.load(fold.source(0) + offset));
  for (int k = 1; k < fold.source_count; ++k) {
    value = apply<Op>(d, value, Codec::decode(access.load(fold.source(k) + offset)));
  }
  fold.store(access, Codec::encode(apply<Finish>(d, value, parameter)), offset);
}

/// The same for two whole vectors side by side, whose chains of operations overlap, of at least two sources.
/// The first two sources stand before the loop because most folds have no more.
template <class Codec, class Op, class Finish, class V>
HWY_INLINE void fold_two(const Fold& fold, const std::byte* left, const std::byte* right, V parameter,
                         std::size_t offset, std::size_t next) {
  const auto d = Codec::tag();
  const WholeVector<Codec> access;
  auto a =
      apply<Op>(d, Codec::decode(access.load(left + offset)), Codec::decode(access.load(right + offset)));
  auto b = apply<Op>(d, Codec::decode(access.load(left + next)), Codec::decode(access.load(right + next)));
  if (HWY_UNLIKELY(fold.source_count > 2)) {
    for (int k = 2; k < fold.source_count; ++k) {
      a = apply<Op>(d, a, Codec::decode(access.load(fold.source(k) + offset)));
      b = apply<Op>(d, b, Codec::decode(access.load(fold.source(k) + next)));
    }
  }
  const auto first = Codec::encode(apply<Finish>(d, a, parameter));
  const auto second = Codec::encode(apply<Finish>(d, b, parameter));
  access.store(first, fold.target + offset);
  access.store(second, fold.target + next);
  if (HWY_UNLIKELY(fold.second != nullptr)) {
    access.store(first, fold.second + offset);
    access.store(second, fold.second + next);
  }
}

/// The loop of all kernels of a codec: `count` elements, each Finish(source[0] Op source[1] Op …, parameter).
template <class Codec, class Op, class Finish>
HWY_NOINLINE void fold_loop(Fold fold, std::size_t count) {
  const auto d = Codec::tag();
  const auto parameter = hn::Set(d, static_cast<typename Codec::Lane>(fold.parameter));
  const std::size_t vector = hn::Lanes(typename Codec::Stored()) * Codec::kBytes;
  const std::size_t bytes = count * Codec::kBytes;
  std::size_t i = 0;
  if (fold.source_count > 1) {
    const std::byte *left = fold.source(0), *right = fold.source(1);
    for (; i + 2 * vector <= bytes; i += 2 * vector) {
      fold_two<Codec, Op, Finish>(fold, left, right, parameter, i, i + vector);
    }
  }
  for (; i + vector <= bytes; i += vector) {
    fold_one<Codec, Op, Finish>(fold, WholeVector<Codec>(), parameter, i);
  }
  if constexpr (hn::MaxLanes(typename Codec::Stored()) > 1) {  // vectors of one lane leave no rest
    while (i < bytes) {
      const auto word = Word<Codec>::of(bytes - i);
      fold_one<Codec, Op, Finish>(fold, word, parameter, i);
      i += word.size;
    }
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

/// The finishing operation of a fold that needs none.
struct Keep {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V) {
    return a;
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

/// The `CombineKernel` of a codec and a binary operation.
template <class Codec, class Op>
void combine(void* target, const void* left, const void* right, std::size_t count) {
  const void* const sources[] = {left, right};
  fold_loop<Codec, Op, Keep>({static_cast<std::byte*>(target), nullptr, sources, 2, 1.0}, count);
}

/// The `FoldKernel` of a codec and a binary operation; `Finish` is `Quotient` where a divisor is allowed.
template <class Codec, class Op, class Finish = Keep>
void fold(void* target, void* second, const void* const* sources, int source_count, double divisor,
          std::size_t count) {
  const Fold work{static_cast<std::byte*>(target), static_cast<std::byte*>(second), sources, source_count,
                  divisor};
  if constexpr (!std::is_same_v<Finish, Keep>) {
    if (divisor != 1.0) return fold_loop<Codec, Op, Finish>(work, count);
  }
  fold_loop<Codec, Op, Keep>(work, count);
}

template <class Codec>
void scale(void* target, const void* source, double factor, std::size_t count) {
  fold_loop<Codec, Sum, Product>({static_cast<std::byte*>(target), nullptr, &source, 1, factor}, count);
}

template <class Codec>
void divide(void* target, const void* source, double divisor, std::size_t count) {
  if (divisor != 1.0) return fold<Codec, Sum, Quotient>(target, nullptr, &source, 1, divisor, count);
  if (target != source && count != 0) std::memcpy(target, source, count * Codec::kBytes);
}

template <class Codec, class Op>
constexpr Reduction reduction() {
  return {combine<Codec, Op>, nullptr, nullptr, fold<Codec, Op>};
}

/// Runs a kernel over the `kParts` parts, elements of a type of their own, of which each element consists.
template <CombineKernel kKernel, std::size_t kParts>
void combine_parts(void* target, const void* left, const void* right, std::size_t count) {
  kKernel(target, left, right, kParts * count);
}

template <FoldKernel kKernel, std::size_t kParts>
void fold_parts(void* target, void* second, const void* const* sources, int source_count, double divisor,
                std::size_t count) {
  kKernel(target, second, sources, source_count, divisor, kParts * count);
}

/// The row of a real floating type.
template <class Codec>
constexpr Row floating_row(DataType type) {
  Row row{type};
  row[ReduceOp::sum] = reduction<Codec, Sum>();
  row[ReduceOp::average] = {combine<Codec, Sum>, nullptr, divide<Codec>, fold<Codec, Sum, Quotient>};
  row[ReduceOp::product] = reduction<Codec, Product>();
  row[ReduceOp::min] = reduction<Codec, FloatMin>();
  row[ReduceOp::max] = reduction<Codec, FloatMax>();
  row[ReduceOp::premul_sum] = {combine<Codec, Sum>, scale<Codec>, nullptr, fold<Codec, Sum>};
  return row;
}

}  // namespace HWY_NAMESPACE
}  // namespace ucxring::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggle guard
