// Buffer contents whose reductions are exact in every element type and order, so that results compare bit for
// bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/reduce/types.hpp"
#include "transport/types.hpp"

namespace ucxring::perf {

/// Every rank's factor of `ReduceOp::premul_sum`.
inline constexpr int kPremulFactor = 2;

/// Endless contents of a buffer: one period of elements, repeated. The period is prime, so that parts of a
/// buffer at the offsets which algorithms use differ.
class Pattern {
 public:
  static constexpr std::size_t kPeriod = 8191;  ///< elements

  /// `period`: kPeriod elements of `element_bytes` bytes each.
  Pattern(std::vector<std::byte> period, std::size_t element_bytes);

  /// Writes the elements from number `first` on over all of `target`.
  void fill(Buffer target, std::size_t first = 0) const;
  /// How many elements of `found` differ from the elements from number `first` on.
  [[nodiscard]] std::uint64_t count_wrong(ConstBuffer found, std::size_t first = 0) const;

 private:
  std::vector<std::byte> period_;
  std::size_t element_bytes_;
};

/// What `rank` contributes to a reduction: small integers, for complex types with no imaginary part. All sums
/// and products, also partial ones, are exact.
[[nodiscard]] Pattern contribution(DataType type, ReduceOp op, int rank, int world_size);

/// The reduction of all ranks' contributions.
[[nodiscard]] Pattern reduction(DataType type, ReduceOp op, int world_size);

/// Whether such contributions exist. The mean of n ranks needs n itself, for which float8 has too few digits
/// unless n is small or almost a power of two.
[[nodiscard]] bool has_exact_contributions(DataType type, ReduceOp op, int world_size) noexcept;

/// Arbitrary bytes of `rank`, for collectives that only move them.
[[nodiscard]] Pattern arbitrary(DataType type, int rank);

}  // namespace ucxring::perf
