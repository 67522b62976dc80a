// Measures one size: checks, warms up, times trials, checks again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bench/perf/buffers.hpp"
#include "bench/perf/exchange.hpp"

namespace ucxring::perf {

/// How to measure, the same on all ranks.
struct Method {
  std::uint64_t iterations = 20;  ///< calls of a trial
  std::uint64_t warmup = 5;       ///< calls before the first trial
  int trials = 5;                 ///< samples of each size
  std::chrono::duration<double>
      time_per_size;  ///< when positive, chooses the iterations: all trials together
  bool check = true;
};

/// What was measured for one size, the same on all ranks.
struct Row {
  std::size_t bytes = 0;
  bool in_place = false;
  std::uint64_t iterations = 0;    ///< calls of each trial
  std::vector<double> samples_us;  ///< per trial: the slowest rank's mean time of a call, in microseconds
  double median_us = 0;
  double best_us = 0;
  std::optional<std::uint64_t> wrong;  ///< elements on all ranks, before and after; none when not checked
  double cpu_s_per_gb =
      0;  ///< CPU seconds of all ranks' threads per 10⁹ bytes of the vector; 0 without bytes
};

/// The median: the mean of the two middle values of an even number. `values` must not be empty.
[[nodiscard]] double median(std::vector<double> values);

/// Measures with `call`; collective over all ranks. Throws `Error` when an operation fails.
[[nodiscard]] Row measure(const Benchmark& benchmark, const Call& call, bool in_place, const Method& method,
                          Exchange& exchange);

}  // namespace ucxring::perf
