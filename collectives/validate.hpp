// Symbolic execution of all ranks' schedules: proves a collective right without moving a byte.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/collective.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// What a valid set of schedules costs, in units of the textbook.
struct ScheduleCost {
  int rounds = 0;         ///< longest chain of messages that depend on each other (factor of α)
  double bytes_sent = 0;  ///< most bytes any rank sends, as a multiple of the vector's n bytes (factor of β)
  double bytes_received = 0;  ///< likewise received
  double bytes_reduced = 0;   ///< likewise combined (factor of γ)
  std::size_t messages = 0;   ///< messages of all ranks together
};

struct Validation {
  Status status;      ///< ok, or `invalid_argument` naming rank, step and what is wrong
  ScheduleCost cost;  ///< when ok
};

/// Whether ranks may have parts of different sizes for each other. Without meaning for collectives whose
/// ranks all have one whole vector.
enum class Parts : std::uint8_t { uneven, even };

/// Runs `schedules[r]` for every rank r symbolically, with messages that complete only when they are received
/// (the strictest transport) and once with input and output in the same memory, once apart. Checks that every
/// index and peer is in range, each send meets one receive of the same size, nothing dead-locks, no chunk is
/// read before it is written or overwritten while being sent, the result of `collective` holds every
/// contribution exactly once, is marked complete exactly once where it is reduced, and is the same
/// expression, in the same order, on every rank. Never crashes, whatever it is fed. `root` matters for rooted
/// collectives only. Schedules that are valid for uneven parts are so for even ones, not the other way round.
[[nodiscard]] Validation validate(std::span<const Schedule> schedules, Collective collective,
                                  Rank root = Rank(0), Parts parts = Parts::uneven);

}  // namespace ucxring
