// Tensors over registered memory.
#pragma once

#include <c10/core/Allocator.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ucxring {

/// Torch's view of registered memory (`RegisteredBuffer`): zeroed, given back when the storage goes. Lives as
/// long as the process; thread-safe. `allocate` throws torch's OutOfMemoryError, which says what is scarce,
/// or NotImplementedError where the system refuses memory files.
[[nodiscard]] c10::Allocator& registered_allocator();

/// A contiguous CPU tensor of shape `sizes` over registered memory; over ordinary memory, with one warning in
/// a process, where the system refuses memory files. Throws torch's OutOfMemoryError, or RuntimeError for a
/// shape that no tensor can have.
[[nodiscard]] at::Tensor empty_registered(at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace ucxring
