// Copies of vectors that the caches could not keep.
#pragma once

#include <cstddef>

namespace ucxring {

/// As `std::memcpy`, but writes past the caches, where the machine can: lines that are overwritten as a whole
/// need not be fetched first, and what others work with stays in the caches. Whoever reads `to` next fetches
/// it from memory. Visible to other threads as after `std::memcpy`. No alignment is needed.
void streaming_copy(void* to, const void* from, std::size_t bytes) noexcept;

/// Size in bytes of the largest cache of this machine, or a guess where the system does not tell.
[[nodiscard]] std::size_t largest_cache_bytes();

}  // namespace ucxring
