// How an operation is cut for pipelining: a chunk into slices, one per lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/config.hpp"

namespace ucxring {

/// Lane l moves bytes [l × slice, (l + 1) × slice) of every chunk.
struct Slicing {
  std::size_t slice_bytes = 0;  ///< a multiple of 64
  std::uint64_t lanes = 1;
  int window = 1;  ///< lanes in flight
};

/// The slicing of an operation whose largest chunk has `chunk_bytes` bytes, in a group in which some ranks
/// share memory or none do. Messages carry slices of at most `widest` chunks and are no longer for that. The
/// planner and the cost model both ask here.
[[nodiscard]] Slicing slice_chunks(std::size_t chunk_bytes, bool shares_memory, const Config& config,
                                   int widest = 1) noexcept;

/// The slicing on this rank of an operation of which ranks know different chunks. Slice and lanes in flight
/// do not depend on `chunk_bytes`, so that ranks cut what they exchange alike.
[[nodiscard]] Slicing slice_uneven_chunks(std::size_t chunk_bytes, bool shares_memory,
                                          const Config& config) noexcept;

/// Whether two ranks have the same host; `hosts` as `Transport::hosts()`.
[[nodiscard]] bool any_share(std::span<const int> hosts) noexcept;

}  // namespace ucxring
