// The latency path: an operation carried out at once by its caller.
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives/lane_memory.hpp"

namespace ucxring {

/// How far a lane has come.
struct Progress {
  std::size_t moves = 0;  ///< that are done
  bool folded = false;    ///< and the next one, a fold, but for sending its result
};

/// Carries out the moves of a plan that is `immediate`, looking for messages in the caller's thread as long
/// as peers keep up. Stops before the move that waits for a peer who is late, gone or calls something else,
/// or for room; an `Execution` goes on from there. Allocates nothing. Called with the baton.
struct ImmediateRun {
  const Plan& plan;
  SharedMemory& shared;
  std::uint64_t sequence;
  /// How often to look for one message, with a pause between; where ranks share cores it yields instead,
  /// since the peer may need this very core.
  int looks;
  const std::atomic<int>& contenders;  ///< stops when another thread wants the baton

  [[nodiscard]] Progress run(const OperationBuffers& buffers) const;

 private:
  enum class Outcome : std::uint8_t { done, waits, folded };
  Outcome run_move(const LaneMemory& memory, const Move& move) const;
  Outcome run_fold(const LaneMemory& memory, const Move& move) const;
  [[nodiscard]] const void* look_for(int peer, Tag tag, std::size_t bytes) const;
  [[nodiscard]] Tag tag(std::uint32_t step) const noexcept { return Tag::make(sequence, 0, step); }
};

}  // namespace ucxring
