// Schedules: a collective as pure data. One schedule says what one rank sends, receives and combines, in
// chunks; it knows neither dtype, nor memory, nor transport.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/types.hpp"

namespace ucxring {

/// Which of a rank's buffers a chunk lies in.
enum class Space : std::uint8_t { none, input, output, scratch };

/// A chunk of a buffer, or several chunks of scratch that lie one after the other
/// (`ScheduleBuilder::bundle`). `signal()` is an empty message.
struct ChunkRef {
  Space space = Space::none;
  int chunk = 0;
  int chunks = 1;
  friend constexpr auto operator<=>(ChunkRef, ChunkRef) noexcept = default;

  /// Chunks of a bundle: `count` of them, from its chunk number `first` on.
  [[nodiscard]] constexpr ChunkRef part(int first, int count = 1) const noexcept {
    return {space, chunk + first, count};
  }
  /// Whether the two have a chunk in common.
  [[nodiscard]] constexpr bool overlaps(ChunkRef other) const noexcept {
    return space == other.space && chunk < other.chunk + other.chunks && other.chunk < chunk + chunks;
  }
};
[[nodiscard]] constexpr ChunkRef input(int chunk) noexcept { return {Space::input, chunk}; }
[[nodiscard]] constexpr ChunkRef output(int chunk) noexcept { return {Space::output, chunk}; }
[[nodiscard]] constexpr ChunkRef signal() noexcept { return {}; }

enum class Action : std::uint8_t {
  send,     ///< send `source` to `peer`
  receive,  ///< receive from `peer`; the incoming chunk is the right operand of `combine`
  local,    ///< `target` = `operand`, or `operand` ⊕ `source`, inside this rank
};

/// What happens with the incoming chunk (for `local`: with `source`).
enum class Combine : std::uint8_t {
  copy,           ///< target = incoming
  reduce,         ///< target = operand ⊕ incoming
  reduce_before,  ///< target = incoming ⊕ operand
};

/// One step. Steps of a schedule run in order; a send does not wait for its completion, but a step that
/// overwrites a chunk waits until earlier sends of that chunk are complete. `input(i)` and `output(i)` may be
/// the same memory when a collective runs in place; schedules must be right either way.
struct Step {
  Action action = Action::local;
  Combine combine = Combine::copy;
  bool completes = false;  ///< the target now holds every rank's contribution (where an average is divided)
  int peer = -1;
  ChunkRef source{};   ///< send: what is sent; local: the chunk copied, or the incoming operand
  ChunkRef operand{};  ///< the chunk combined with, for the two reduce forms
  ChunkRef target{};   ///< receive and local: where the result goes
};

/// "output[3]", for messages and figures.
[[nodiscard]] std::string describe(ChunkRef chunk);
/// "receive from rank 2: output[3] = input[3] + incoming", for messages and figures.
[[nodiscard]] std::string describe(const Step& step);

/// A chunk of scratch.
struct ScratchChunk {
  ChunkRef like{};  ///< the input or output chunk whose size it has
  int place = 0;    ///< in its bundle: so many chunks before it, all of the same size
  friend constexpr auto operator<=>(const ScratchChunk&, const ScratchChunk&) noexcept = default;
};

/// The steps of one rank.
struct Schedule {
  int input_chunks = 0;   ///< chunks the input is cut into
  int output_chunks = 0;  ///< chunks the output is cut into
  int widest = 1;         ///< most chunks in any message of any rank
  std::vector<ScratchChunk> scratch;
  std::vector<Step> steps;
};

/// Writes schedules in the words of the textbook.
class ScheduleBuilder {
 public:
  /// `widest`: most chunks in any message of any rank, not of this one alone.
  ScheduleBuilder(int input_chunks, int output_chunks, int widest = 1);

  /// A new scratch chunk of the size of `like`.
  [[nodiscard]] ChunkRef scratch(ChunkRef like);
  /// `chunks` new scratch chunks of the size of `like`, which one message may carry together. For collectives
  /// in which all ranks have chunks of the same size.
  [[nodiscard]] ChunkRef bundle(ChunkRef like, int chunks);

  ScheduleBuilder& send(Rank peer, ChunkRef source);
  ScheduleBuilder& receive(Rank peer, ChunkRef target);
  /// target = operand ⊕ incoming
  ScheduleBuilder& receive_reduce(Rank peer, ChunkRef operand, ChunkRef target);
  /// target = incoming ⊕ operand
  ScheduleBuilder& receive_reduce_before(Rank peer, ChunkRef operand, ChunkRef target);
  /// target = source; nothing at run time when both are the same memory
  ScheduleBuilder& copy(ChunkRef source, ChunkRef target);
  /// target = left ⊕ right
  ScheduleBuilder& reduce(ChunkRef left, ChunkRef right, ChunkRef target);
  /// Marks the result of the last step as holding every rank's contribution. Throws `Error` (internal) before
  /// the first step.
  ScheduleBuilder& completes();

  [[nodiscard]] Schedule build() &&;

 private:
  Schedule schedule_;
};

}  // namespace ucxring
