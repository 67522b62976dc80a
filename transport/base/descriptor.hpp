// Owner of a file descriptor.
#pragma once

#include "transport/base/unique_handle.hpp"

namespace ucxring {

/// Closes a file descriptor; the only close() of ucxring.
void close_descriptor(int descriptor) noexcept;

/// Move-only file descriptor.
using Descriptor = UniqueHandle<int, &close_descriptor, -1>;

}  // namespace ucxring
