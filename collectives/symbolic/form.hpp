// What can be told from each schedule alone, before anything is run.
#pragma once

#include "collectives/symbolic/problem.hpp"

namespace ucxring::symbolic {

/// Checks that each rank has the chunks its collective needs, and that each step is well formed: known
/// actions, peers and chunks in range, operands of one size, nothing written to the input. What passes can be
/// run without care.
[[nodiscard]] Status check_form(const Problem& problem);

}  // namespace ucxring::symbolic
