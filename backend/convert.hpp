// Torch's element types, reduce operations and tensors as the collectives take them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "collectives/reduce/types.hpp"
#include "transport/types.hpp"

namespace ucxring {

/// Element type for collectives that combine values. Throws TypeError naming `operation` and `type` when
/// ucxring cannot.
[[nodiscard]] DataType combining_type(at::ScalarType type, std::string_view operation);

/// Element type for collectives that only move: what has no counterpart in ucxring travels as bytes.
[[nodiscard]] DataType moving_type(at::ScalarType type);

/// A reduction with this rank's factor, which is 1 except for premul_sum.
struct Reducing {
  ReduceOp op = ReduceOp::sum;
  double factor = 1.0;
};
/// Throws ValueError for what torch itself calls unused.
[[nodiscard]] Reducing to_reducing(const c10d::ReduceOp& op, std::string_view operation);

/// Throws unless `tensor` is a defined, dense CPU tensor. `operation` and `role` ("all_reduce", "input")
/// begin the message.
void check_input(const at::Tensor& tensor, std::string_view operation, std::string_view role = "input");
/// As `check_input`, and refuses tensors several of whose elements share memory (expanded ones).
void check_output(const at::Tensor& tensor, std::string_view operation, std::string_view role = "output");
/// Throws TypeError unless the input and the output have the same dtype.
void check_same_type(const at::Tensor& input, const at::Tensor& output, std::string_view operation);

/// The bytes of a contiguous tensor.
[[nodiscard]] ConstBuffer bytes_of(const at::Tensor& packed);
[[nodiscard]] Buffer writable_bytes_of(const at::Tensor& packed);

/// Whether the elements lie in memory in logical order, as they are (no lazy conjugation or negation).
[[nodiscard]] bool is_packed(const at::Tensor& tensor);
/// `tensor` itself when packed, else a packed copy.
[[nodiscard]] at::Tensor packed_copy(const at::Tensor& tensor);
/// `tensor` itself when packed, else packed memory of its shape.
[[nodiscard]] at::Tensor packed_space(const at::Tensor& tensor);
/// Uninitialised packed memory for `count` elements of the dtype of `like`.
[[nodiscard]] at::Tensor flat_space(const at::Tensor& like, std::int64_t count);
/// Copies values without autograd and version counters seeing it, as the collectives themselves do.
void copy_values(const at::Tensor& from, const at::Tensor& to);
/// Copies `joined`, a flat tensor, to `parts` one after the other; as `copy_values`.
void scatter_values(const at::Tensor& joined, const std::vector<at::Tensor>& parts);
/// Copies `parts` one after the other to `joined`, a flat tensor; as `copy_values`.
void gather_values(const std::vector<at::Tensor>& parts, const at::Tensor& joined);

}  // namespace ucxring
