// Folds for element types that have no vector loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "collectives/reduce/table.hpp"

namespace ucxring::cpu {

/// The `FoldKernel` of an operation whose `kCombine` needs no wider type: combines the sources in turn, a
/// slice that stays in the first-level cache at a time. `kBytes` is the size of an element. Does not divide.
template <CombineKernel kCombine, std::size_t kBytes>
void fold_by_slices(void* target, void* second, const void* const* sources, int source_count, double,
                    std::size_t count) {
  constexpr std::size_t kSlice = 4096 / kBytes;
  alignas(64) std::byte partial[kSlice * kBytes];  // not `target`, which may be a source still to be read
  for (std::size_t i = 0; i < count; i += kSlice) {
    const std::size_t offset = i * kBytes, now = std::min(kSlice, count - i);
    const auto source = [&](int index) { return static_cast<const std::byte*>(sources[index]) + offset; };
    std::byte* const out = static_cast<std::byte*>(target) + offset;
    const std::byte* left = source(0);
    if (source_count == 1) std::memmove(out, left, now * kBytes);
    for (int k = 1; k < source_count; ++k) {
      std::byte* const to = k + 1 == source_count ? out : partial;
      kCombine(to, left, source(k), now);
      left = to;
    }
    if (second != nullptr) std::memcpy(static_cast<std::byte*>(second) + offset, out, now * kBytes);
  }
}

}  // namespace ucxring::cpu
