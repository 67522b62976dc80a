// Predicts how long a collective takes, from the schedules of all ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <ratio>
#include <span>

#include "collectives/cost_parameters.hpp"
#include "collectives/schedule.hpp"
#include "collectives/slicing.hpp"

namespace ucxring {

/// Predicted time. Integers, so that every rank gets the same on every machine.
using Cost = std::chrono::duration<std::int64_t, std::pico>;

/// What is predicted for. Spans must stay valid during the call.
struct CostQuestion {
  std::span<const Schedule> schedules;  ///< by rank; must be valid (validate.hpp)
  std::span<const int> hosts{};         ///< number of each rank's host; empty: every rank is its own host
  std::size_t bytes = 0;                ///< of the operation: the larger of input and output
  Config config{};                      ///< how it is sliced
};

/// The bytes of the largest chunk of an operation of `bytes` bytes under `schedule`.
[[nodiscard]] std::size_t chunk_bytes_of(const Schedule& schedule, std::size_t bytes) noexcept;

/// The predicted time of one operation, from the moment when all ranks call until the last one is done.
///
/// One slice is followed through the steps of all ranks, in the manner of LogGP (Alexandrov et al., 1995): a
/// rank's core is busy for the overhead and the bytes of each message it sends or receives, and for what it
/// reduces; between hosts each message then occupies the sender's and the receiver's network interface, after
/// those before it. Inside a host consecutive sends of one chunk are published once. Ranks share the cores of
/// their host evenly, and where they are more than the cores a message waits until its receiver has its turn.
/// The other lanes follow at the distance that the busiest core or interface needs for one slice, or that the
/// window allows.
///
/// Throws `Error` (internal) when the schedules wait for each other.
[[nodiscard]] Cost predict(const CostQuestion& question, const CostParameters& parameters);

}  // namespace ucxring
