// Moves: what the executor carries out. A schedule's steps, with those fused that shared memory makes one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/schedule.hpp"
#include "transport/shared_memory.hpp"

namespace ucxring {

/// A range of one of the lists in `Moves`.
struct MoveRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// One instruction of the executor.
struct Move {
  enum class Kind : std::uint8_t {
    send,     ///< the step `step`, to a rank of another host
    receive,  ///< likewise a receive
    local,    ///< the step `step`
    publish,  ///< `source` to `recipients`, written once into shared memory
    fold,     ///< `target` = `operands` combined in their order (one operand: copied), then to `recipients`
  };
  Kind kind = Kind::local;
  bool completes = false;     ///< fold: the target now holds every rank's contribution
  bool must_copy = false;     ///< publish: a later fold overwrites the source before it must wait for readers
  std::uint32_t step = 0;     ///< first step of the schedule that this move stands for
  std::uint32_t ordinal = 0;  ///< send and receive: step field of the tag
  std::uint32_t send_slot = 0;  ///< which completion of the lane it uses, unless it sends nothing
  MoveRange hazards;            ///< send slots that must be complete before the target is written
  MoveRange recipients;
  MoveRange operands;
  ChunkRef source{};
  ChunkRef target{};
};

/// An operand of a fold: a chunk of this rank, or a message.
struct FoldOperand {
  int peer = -1;              ///< sender; −1 for a chunk
  std::uint32_t ordinal = 0;  ///< of the message
  ChunkRef chunk{};
};

/// The moves of one rank.
struct Moves {
  std::vector<Move> list;
  std::vector<Recipient> recipients;
  std::vector<FoldOperand> operands;
  std::vector<std::uint32_t> hazards;
  std::uint32_t sends = 0;  ///< send slots in all

  [[nodiscard]] std::span<const Recipient> recipients_of(const Move& move) const noexcept {
    return {recipients.data() + move.recipients.first, move.recipients.count};
  }
  [[nodiscard]] std::span<const FoldOperand> operands_of(const Move& move) const noexcept {
    return {operands.data() + move.operands.first, move.operands.count};
  }
  [[nodiscard]] std::span<const std::uint32_t> hazards_of(const Move& move) const noexcept {
    return {hazards.data() + move.hazards.first, move.hazards.count};
  }
};

/// Most operands of one fold.
inline constexpr std::uint32_t kMostOperands = 64;

/// What fusing depends on.
struct MoveEnvironment {
  const SharedMemory* shared = nullptr;                    ///< null: nobody is near
  std::function<bool(ChunkRef a, ChunkRef b)> same_place;  ///< whether two chunks may be the same memory
};

/// The moves of `schedule`. Between ranks that share memory
///   - consecutive sends of one chunk become one publish;
///   - a receive becomes a fold, and so does a whole chain of them in which each step combines the sum so far
///     with the next message or own chunk, as long as no other step sees the partial sums;
///   - sends of a fold's target that follow it at once become part of it.
[[nodiscard]] Moves make_moves(const Schedule& schedule, const MoveEnvironment& environment);

}  // namespace ucxring
