// One rank of a run.
#pragma once

#include "bench/perf/options.hpp"

namespace ucxring::perf {

/// Joins the others through `options.store` and measures all sizes; rank 0 prints and writes the JSON file.
/// Returns the exit status. Prints what went wrong, also when it is an exception.
[[nodiscard]] int run_rank(const Options& options, int rank);

}  // namespace ucxring::perf
