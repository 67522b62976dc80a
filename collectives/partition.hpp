// Maps elements to chunks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ucxring {

/// A contiguous range of bytes in a buffer.
struct Extent {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Chunk → extent of a buffer.
using ChunkMap = std::vector<Extent>;

/// Cuts `count` elements of `element_bytes` into `chunks` contiguous chunks. Sizes differ by at most one
/// grain, where a grain is a cache line of elements if every chunk gets at least one and a single element
/// otherwise; later chunks may be empty. Pure: all ranks get the same map.
[[nodiscard]] ChunkMap partition(std::size_t count, int chunks, std::size_t element_bytes);

/// One chunk of `counts[i]` elements for each i, packed one after the other.
[[nodiscard]] ChunkMap partition_by_counts(std::span<const std::size_t> counts, std::size_t element_bytes);

}  // namespace ucxring
