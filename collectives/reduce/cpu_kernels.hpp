// Rows of the reduction table for host memory. Kernels are written with Google Highway: each family compiles
// its loops once per instruction set and hands out the row of the best one this processor has.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "collectives/reduce/table.hpp"

namespace ucxring::cpu {

/// Kernels of one element type, indexed by `ReduceOp`. A null `combine` means that the pair has no meaning.
struct Row {
  DataType type{};
  std::array<Reduction, kReduceOps> ops{};

  constexpr Reduction& operator[](ReduceOp op) noexcept { return ops[static_cast<std::size_t>(op)]; }
  constexpr const Reduction& operator[](ReduceOp op) const noexcept {
    return ops[static_cast<std::size_t>(op)];
  }
};

/// float64, float32, complex64, complex128. min and max give the canonical quiet NaN when either operand is
/// NaN and order −0 before +0, so they do not depend on the order of operands. The factor or divisor is
/// rounded to the element's own precision first; dividing by 1 copies.
[[nodiscard]] std::span<const Row> float_rows();

/// float16, bfloat16, float8_e4m3fn, float8_e5m2: computed in float, rounded once to nearest even. Overflow
/// gives infinity, in float8_e4m3fn, which has none, NaN. Otherwise as `float_rows`.
[[nodiscard]] std::span<const Row> narrow_float_rows();

/// All integer types (overflow wraps around) and bool (any byte other than 0 is true, results are 0 or 1).
[[nodiscard]] std::span<const Row> integer_rows();

/// target[i] = left[i] × right[i] by the schoolbook formula (ac − bd) + (ad + bc)i, without the recovery of
/// infinities of C's Annex G; the same bits with and without fused multiply-add hardware.
void multiply_complex64(void* target, const void* left, const void* right, std::size_t count);
/// The same in double precision.
void multiply_complex128(void* target, const void* left, const void* right, std::size_t count);

}  // namespace ucxring::cpu
