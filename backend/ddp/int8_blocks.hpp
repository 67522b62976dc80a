#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace ucxring::ddp {

// What the comm hook `int8_compress` does on the CPU; backend/python/ucxring/ddp/hooks/blocks.py does the
// same with operations of torch on other devices. Tensors are contiguous and on the CPU; numbers are float32.
// A message is int8, (rows, bytes of a row): the codes of a row, then the bytes of the scales of its blocks
// of `size` numbers; see int8::Message. Each call is one pass over memory, by the threads of at::parallel_for
// if there is enough to do. Other tensors throw c10::Error.

/// Writes `values`, plus `added`, into the message and leaves in `values` the errors, except of blocks that
/// are not finite. There may be fewer values than the message has room for: then zeros follow.
void encode_int8_blocks(const at::Tensor& values, const std::optional<at::Tensor>& added,
                        const at::Tensor& message, std::int64_t size);

/// Encodes the sum of all rows of `from`, times `factor`, plus `added`, into `to`, which has one row. Its
/// errors are left in `total`, as long as a row.
void average_int8_blocks(const at::Tensor& from, double factor, const at::Tensor& total,
                         const std::optional<at::Tensor>& added, const at::Tensor& to, std::int64_t size);

/// Writes the numbers of the message to `values`, after what was in there has been moved to `kept`.
void decode_int8_blocks(const at::Tensor& message, const at::Tensor& values,
                        const std::optional<at::Tensor>& kept, std::int64_t size);

}  // namespace ucxring::ddp
