// What `UCXRING_DEBUG=TUNING` prints.
#pragma once

#include <string>
#include <vector>

#include "collectives/tuner.hpp"

namespace ucxring {

/// The parameters, then a line for each collective: ranges of sizes, algorithms, predicted times.
[[nodiscard]] std::vector<std::string> describe_tuning(Tuner& tuner);

/// What is chosen for an operation of `bytes` bytes, and what the other candidates would take.
[[nodiscard]] std::string describe_choice(const Tuner& tuner, Collective collective, std::size_t bytes);

}  // namespace ucxring
