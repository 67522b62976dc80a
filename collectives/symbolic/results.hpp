// What a collective must leave behind.
#pragma once

#include "collectives/symbolic/problem.hpp"
#include "collectives/symbolic/rehearsal.hpp"

namespace ucxring::symbolic {

/// Checks the outputs of a finished run: every rank holds what the collective promises, once, complete, and
/// as the same expression as the other ranks; a barrier was left by no rank that had not heard of all others.
[[nodiscard]] Status check_results(const Problem& problem, const Rehearsal& rehearsal,
                                   Expressions& expressions);

}  // namespace ucxring::symbolic
