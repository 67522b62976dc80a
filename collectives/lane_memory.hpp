// Where the chunks of one lane lie, and what needs nothing else.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/plan.hpp"

namespace ucxring {

/// What an operation works on. Buffers have the plan's sizes.
struct OperationBuffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  double factor = 1.0;  ///< of premul_sum
};

/// One lane's view of an operation's memory. Owns nothing.
struct LaneMemory {
  const Plan* plan = nullptr;
  OperationBuffers buffers;
  std::byte* scratch = nullptr;
  std::uint64_t index = 0;  ///< of the lane

  /// The lane's slice of a chunk, or its slices of a bundle. Writable even for inputs, which no step writes.
  [[nodiscard]] Buffer slice(ChunkRef ref) const noexcept;
  /// Whether the lane's slice of `ref` takes part: empty ones do only in the first lane, so that every
  /// operation has a message from which the ranks see whether they agree.
  [[nodiscard]] bool takes_part(ChunkRef ref) const noexcept { return index == 0 || slice(ref).bytes != 0; }

  /// Copies into the user's memory or scratch, past the caches if the operation is too large for them.
  void copy(Buffer target, const void* source) const noexcept;
  /// Carries out a local step.
  void run_local(const Step& step) const;
  /// Divides `target` where an average is due.
  void divide(ChunkRef target) const;
  /// Combines the operands of `fold`, which lie at `sources`, into its target. `second`, unless null, gets
  /// the same bytes.
  void fold(const Move& fold, const void* const* sources, std::byte* second) const;
};

inline Buffer LaneMemory::slice(ChunkRef ref) const noexcept {
  const auto chunk = static_cast<std::size_t>(ref.chunk);
  const std::size_t begin = index * plan->slice_bytes;
  const auto cut = [&](const auto& extent) {
    return begin >= extent.bytes ? 0 : std::min(plan->slice_bytes, extent.bytes - begin);
  };
  switch (ref.space) {
    case Space::none:
      return {};
    case Space::input: {
      const Extent& extent = plan->input[chunk];
      return {const_cast<std::byte*>(buffers.input) + extent.offset + begin, cut(extent)};
    }
    case Space::output: {
      const Extent& extent = plan->output[chunk];
      return {buffers.output + extent.offset + begin, cut(extent)};
    }
    case Space::scratch:
      break;
  }
  const ScratchExtent& extent = plan->scratch[chunk];
  const std::size_t bytes = cut(extent);
  return {scratch + extent.offset + extent.place * bytes, static_cast<std::size_t>(ref.chunks) * bytes};
}

}  // namespace ucxring
