// The reduction table: one place that maps (dtype, op, memory kind) to kernels.
#pragma once

#include <cstddef>

#include "collectives/reduce/types.hpp"
#include "transport/types.hpp"

namespace ucxring {

/// target[i] = left[i] ⊕ right[i] for i in [0, count) elements. `target` may equal `left` or `right`; other
/// overlap is not allowed. Pointers need only the alignment of a byte. Operands are ordered: results are the
/// same bits on every rank that combines the same operands in the same order.
using CombineKernel = void (*)(void* target, const void* left, const void* right, std::size_t count);

/// target[i] = source[i] × factor (scale) for `count` elements; `target` may equal `source`.
using ScaleKernel = void (*)(void* target, const void* source, double factor, std::size_t count);

/// target[i] = source[i] ÷ divisor, rounded once; `target` may equal `source`.
using DivideKernel = void (*)(void* target, const void* source, double divisor, std::size_t count);

/// target[i] = sources[0][i] ⊕ sources[1][i] ⊕ …, `source_count` ≥ 1 sources combined from left to right,
/// then divided by `divisor` unless that is 1. Narrow floating types are computed in float over all sources
/// and rounded once at the end. `second`, unless null, receives the same bytes as `target` in the same pass.
/// `target` and `second` may each equal one of the sources; other overlap is not allowed.
using FoldKernel = void (*)(void* target, void* second, const void* const* sources, int source_count,
                            double divisor, std::size_t count);

/// Kernels of one (dtype, op). `scale` is set for premul_sum, `divide` for average, else null.
struct Reduction {
  CombineKernel combine = nullptr;
  ScaleKernel scale = nullptr;
  DivideKernel divide = nullptr;
  FoldKernel fold = nullptr;
};

/// Throws `Error` (unsupported) naming both when the pair has no meaning (bit operations on floating types,
/// min and max of complex numbers, average of integers or bool, …).
[[nodiscard]] Reduction find_reduction(DataType type, ReduceOp op, MemoryKind kind = MemoryKind::host);

/// Whether `find_reduction` would succeed.
[[nodiscard]] bool supports_reduction(DataType type, ReduceOp op) noexcept;

}  // namespace ucxring
