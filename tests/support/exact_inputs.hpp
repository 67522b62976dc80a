// Inputs for which every reduction is exact in every dtype and order, so that results compare bit for bit.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/reduce/types.hpp"

namespace ucxring::testing {

/// Small numbers as they are stored in a buffer of `type`.
using Bytes = std::vector<std::byte>;

/// Element `index` of rank `rank`'s input, a small integer (for complex types the real part; the imaginary
/// part is zero).
[[nodiscard]] int exact_element(ReduceOp op, DataType type, int rank, int world_size, std::size_t index);

/// `count` elements of rank `rank`'s input.
[[nodiscard]] Bytes exact_input(ReduceOp op, DataType type, int rank, int world_size, std::size_t count);

/// What the reduction of all ranks' inputs is; `factor` is every rank's premul_sum factor.
[[nodiscard]] Bytes exact_result(ReduceOp op, DataType type, int world_size, std::size_t count,
                                 int factor = 2);

/// Whether such inputs exist: the mean of p ranks needs p itself, which two mantissa bits cannot always hold.
[[nodiscard]] bool has_exact_inputs(ReduceOp op, DataType type, int world_size);

/// Stores one value. It must be exactly representable and, for float types, not negative.
void store_value(DataType type, int value, std::byte* where);

/// Every supported (dtype, op).
struct TypeAndOp {
  DataType type;
  ReduceOp op;
};
[[nodiscard]] std::vector<TypeAndOp> all_reductions();

}  // namespace ucxring::testing
