// The steps of all ranks with what each costs: the input of the cost model's walk.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/cost_model.hpp"

namespace ucxring {

using Ticks = Cost::rep;  ///< picoseconds
inline constexpr Ticks kNanosecond = 1'000;
inline constexpr int kNobody = -1;

/// A step with its costs.
struct TimedStep {
  bool receives = false;
  bool near = false;          ///< its message stays inside the host
  int peer = kNobody;         ///< of a send or receive
  std::uint32_t message = 0;  ///< number of what is sent or received
  Ticks core = 0;             ///< time of this rank's core
  Ticks wire = 0;             ///< a message's time on a network interface
};

/// The steps of every rank.
struct TimedSchedules {
  std::vector<int> hosts;                     ///< by rank
  std::vector<Ticks> near_latency;            ///< of what a rank sends inside its host, by rank
  std::vector<std::vector<TimedStep>> ranks;  ///< by rank, in the order of steps
  std::uint32_t messages = 0;                 ///< numbers are below this
};

/// The steps of one slice of `slice_bytes` bytes. Throws `Error` (internal) for a receive without a send.
[[nodiscard]] TimedSchedules time_steps(const CostQuestion& question, const CostParameters& parameters,
                                        std::size_t slice_bytes);

}  // namespace ucxring
