// The collectives and the fingerprint by which ranks notice that they called different ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/reduce/types.hpp"
#include "transport/types.hpp"

namespace ucxring {

enum class Collective : std::uint8_t {
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  barrier,
};
inline constexpr int kCollectives = 5;

/// Name as in the documentation and in `UCXRING_ALGORITHM`, e.g. "all_reduce".
[[nodiscard]] std::string_view to_string(Collective collective) noexcept;

/// What every rank must agree on. Travels as the stamp of each message, from which the receiver can say what
/// the sender called.
struct Fingerprint {
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;  ///< meaningful for reducing collectives only
  int root = 0;                 ///< meaningful for rooted collectives only
  std::uint64_t count = 0;  ///< elements per rank (all_gather: of the input; reduce_scatter: of the output)

  /// Lossless for roots below 2^12 and counts below 2^38 (larger values are reduced modulo).
  [[nodiscard]] Stamp pack() const noexcept;
  [[nodiscard]] static Fingerprint unpack(Stamp stamp) noexcept;
  /// "all_reduce(sum, float32, 1024 elements)"
  [[nodiscard]] std::string describe() const;
};

/// Whether `collective` combines contributions.
[[nodiscard]] constexpr bool reduces(Collective collective) noexcept {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter;
}

}  // namespace ucxring
