// Checks and staging that the collectives of the backend share. Everything here throws before anything is
// sent.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/convert.hpp"
#include "backend/work.hpp"

namespace ucxring {

/// The one tensor of a list. Throws ValueError when there are more or none.
[[nodiscard]] const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* operation);
/// Throws ValueError unless there are as many outputs as inputs, and some.
void check_equal_lengths(const char* operation, std::size_t outputs, std::size_t inputs);
/// Throws ValueError unless a list of tensors has one for each rank. `role` is "input" or "output".
void check_list(const char* operation, const char* role, std::size_t length, int world_size);
/// The root of an operation. Throws ValueError when it is no rank.
[[nodiscard]] Rank checked_root(const char* operation, std::int64_t root, int world_size);
/// The tensors of an all_gather_into_tensor and of a reduce_scatter_tensor.
void check_gather_pair(const at::Tensor& output, const at::Tensor& input, int world_size);
void check_scatter_pair(const at::Tensor& output, const at::Tensor& input, int world_size);
/// The tensors that a rank gets or gives in a list: as `check_output` or `check_input`, all of the dtype of
/// `like`, the tensor that `like_role` ("input") names, and together no larger than a memory can be.
void check_outputs(const char* operation, const std::vector<at::Tensor>& parts, const at::Tensor& like,
                   const char* like_role = "input");
void check_inputs(const char* operation, const std::vector<at::Tensor>& parts, const at::Tensor& like,
                  const char* like_role = "output");
/// The element type. Throws when `reducing` has no meaning for it.
[[nodiscard]] DataType checked_type(const at::Tensor& tensor, const Reducing& reducing,
                                    const char* operation);

/// How many elements of `moving_type` each tensor has.
[[nodiscard]] std::vector<std::size_t> moving_counts(const std::vector<at::Tensor>& parts);

/// The memory of `parts`, in one storage that is not the one of `apart`, where they lie packed one after the
/// other, as the chunks of a tensor do.
[[nodiscard]] std::optional<ConstBuffer> joined_bytes(const std::vector<at::Tensor>& parts,
                                                      const at::Tensor& apart);
[[nodiscard]] std::optional<Buffer> writable_joined_bytes(const std::vector<at::Tensor>& parts,
                                                          const at::Tensor& apart);

[[nodiscard]] Request make_request(const char* title, c10d::OpType type, std::chrono::milliseconds timeout);
/// Adds to `request` that `packed` is brought to `target` at the end, where they are not the same tensor.
void stage_result(Request& request, const at::Tensor& packed, const at::Tensor& target);
/// Adds to `request` flat memory for all `parts`, in order, that is brought to them at the end.
void stage_parts(Request& request, const std::vector<at::Tensor>& parts);
/// Adds to `request` a flat copy of all `parts`, in order.
void stage_joined(Request& request, const std::vector<at::Tensor>& parts);
/// Fills inputs, outputs and staging (input, output, input, output, …) for tensors taken in pairs.
void add_pairs(Request& request, const std::vector<at::Tensor>& outputs,
               const std::vector<at::Tensor>& inputs);

}  // namespace ucxring
