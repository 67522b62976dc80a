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

/// A chunk of a buffer. `none()` is an empty message, used as a signal.
struct ChunkRef {
  Space space = Space::none;
  int chunk = 0;
  friend constexpr auto operator<=>(ChunkRef, ChunkRef) noexcept = default;
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

/// The steps of one rank.
struct Schedule {
  int input_chunks = 0;           ///< chunks the input is cut into
  int output_chunks = 0;          ///< chunks the output is cut into
  std::vector<ChunkRef> scratch;  ///< scratch chunk k has the size of the input or output chunk scratch[k]
  std::vector<Step> steps;
};

/// Writes schedules in the words of the textbook.
class ScheduleBuilder {
 public:
  ScheduleBuilder(int input_chunks, int output_chunks);

  /// A new scratch chunk of the size of `like` (an input or output chunk).
  [[nodiscard]] ChunkRef scratch(ChunkRef like);

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
