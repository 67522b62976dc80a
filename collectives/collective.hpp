// The collectives and the fingerprint by which ranks notice that they called different ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "collectives/reduce/types.hpp"
#include "transport/types.hpp"

namespace ucxring {

enum class Collective : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  barrier,
};
inline constexpr int kCollectives = 9;

/// Name as in the documentation and in `UCXRING_ALGORITHM`, e.g. "all_reduce".
[[nodiscard]] std::string_view to_string(Collective collective) noexcept;

/// What every rank must agree on. Travels as the stamp of each message, from which the receiver can say what
/// the sender called.
struct Fingerprint {
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;  ///< meaningful for reducing collectives only
  int root = 0;                 ///< meaningful for rooted collectives only
  /// Elements per rank: of the smaller of input and output; all_to_all: that each rank sends to each. Of an
  /// uneven call what `counts_stamp` makes of the counts, or 0 where no rank knows all of them.
  std::uint64_t count = 0;
  bool uneven = false;  ///< called with a count for each rank

  /// Lossless for roots below 2^12 and counts below 2^38 (larger values are reduced modulo).
  [[nodiscard]] Stamp pack() const noexcept;
  [[nodiscard]] static Fingerprint unpack(Stamp stamp) noexcept;
  /// "all_reduce(sum, float32, 1024 elements)". `sizes` ("[1, 2, 3] elements"), unless empty, takes the place
  /// of the words for counts that differ, which a fingerprint cannot tell.
  [[nodiscard]] std::string describe(std::string_view sizes = {}) const;

  friend bool operator==(const Fingerprint&, const Fingerprint&) noexcept = default;
};

/// Whether `collective` combines contributions.
[[nodiscard]] constexpr bool reduces(Collective collective) noexcept {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

/// Whether one rank of `collective` is the root.
[[nodiscard]] constexpr bool is_rooted(Collective collective) noexcept {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

/// Whether the larger of input and output of `collective` has one chunk for each rank.
[[nodiscard]] constexpr bool has_chunk_per_rank(Collective collective) noexcept {
  return collective == Collective::all_gather || collective == Collective::reduce_scatter ||
         collective == Collective::gather || collective == Collective::scatter ||
         collective == Collective::all_to_all;
}

/// What ranks that all know the counts of an uneven call compare, as `Fingerprint::count`: equal for equal
/// counts, and all but certainly different for others.
[[nodiscard]] std::uint64_t counts_stamp(std::span<const std::size_t> counts) noexcept;

}  // namespace ucxring
