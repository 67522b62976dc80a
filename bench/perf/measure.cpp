#include "bench/perf/measure.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ucxring::perf {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kPoison = 0xa5;  // what the output holds before a check, so that nothing looks right by chance

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void fill(const Benchmark& benchmark, const Call& call) {
  if (call.output.bytes > 0) std::memset(call.output.data, kPoison, call.output.bytes);
  // The caller owns both buffers, and made them writable.
  const Buffer input{const_cast<std::byte*>(call.input.data), call.input.bytes};
  benchmark.input_pattern(call.problem).fill(input);
}

/// One call on fresh inputs; the number of wrong elements on this rank.
std::uint64_t check(const Benchmark& benchmark, const Call& call) {
  fill(benchmark, call);
  benchmark.repeat(call, 1);
  std::uint64_t wrong = 0;
  for (const Expected& range : benchmark.expected(call.problem)) {
    const ConstBuffer found(call.output.data + range.offset, range.bytes);
    wrong += range.pattern.count_wrong(found, range.first);
  }
  return wrong;
}

/// This rank's time for a trial.
Seconds time_trial(const Benchmark& benchmark, const Call& call, std::uint64_t iterations) {
  call.communicator.barrier(call.options).wait().throw_if_error();
  const auto begin = Clock::now();
  benchmark.repeat(call, iterations);
  return Clock::now() - begin;
}

/// Calls that take about `wanted` on the slowest rank, found as Google Benchmark does: ever more of them,
/// until they take long enough to extrapolate.
std::uint64_t find_iterations(const Benchmark& benchmark, const Call& call, Seconds wanted,
                              Exchange& exchange) {
  constexpr double kMost = 1e9;
  double iterations = 1;
  while (true) {
    const double own = time_trial(benchmark, call, static_cast<std::uint64_t>(iterations)).count();
    const double spent = std::max(exchange.largest(own), 1e-9);
    const double enough = std::clamp(std::round(iterations * wanted.count() / spent), 1.0, kMost);
    if (spent > 0.1 * wanted.count() || iterations >= kMost) return static_cast<std::uint64_t>(enough);
    iterations *= 10;
  }
}

/// Puts the figures of all ranks together: wrong elements, CPU seconds, then the samples.
void combine(const std::vector<std::vector<double>>& figures, Row& row) {
  double wrong = 0;
  double cpu = 0;
  row.samples_us.assign(figures.front().size() - 2, 0.0);
  for (const auto& rank : figures) {
    wrong += rank[0];
    cpu += rank[1];
    for (std::size_t i = 0; i < row.samples_us.size(); ++i) {
      row.samples_us[i] = std::max(row.samples_us[i], rank[i + 2]);
    }
  }
  if (row.wrong) row.wrong = static_cast<std::uint64_t>(wrong);
  const double vectors = static_cast<double>(row.iterations) * static_cast<double>(row.samples_us.size());
  if (row.bytes > 0) row.cpu_s_per_gb = cpu / (vectors * static_cast<double>(row.bytes)) * 1e9;
  row.median_us = median(row.samples_us);
  row.best_us = *std::min_element(row.samples_us.begin(), row.samples_us.end());
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t upper = values.size() / 2;
  return values.size() % 2 == 1 ? values[upper] : (values[upper - 1] + values[upper]) / 2;
}

Row measure(const Benchmark& benchmark, const Call& call, bool in_place, const Method& method,
            Exchange& exchange) {
  Row row;
  row.bytes = call.problem.bytes;
  row.in_place = in_place;
  std::uint64_t wrong = 0;
  if (method.check) {
    row.wrong = 0;
    wrong += check(benchmark, call);
  } else {
    fill(benchmark, call);
  }
  benchmark.repeat(call, method.warmup);
  row.iterations = method.time_per_size.count() > 0
                       ? find_iterations(benchmark, call, method.time_per_size / method.trials, exchange)
                       : method.iterations;
  std::vector<double> figures{0, 0};
  const double cpu = cpu_seconds();
  for (int trial = 0; trial < method.trials; ++trial) {
    const Seconds spent = time_trial(benchmark, call, row.iterations);
    figures.push_back(spent.count() * 1e6 / static_cast<double>(row.iterations));
  }
  figures[1] = cpu_seconds() - cpu;
  if (method.check) wrong += check(benchmark, call);
  figures[0] = static_cast<double>(wrong);
  combine(exchange.gather(figures), row);
  return row;
}

}  // namespace ucxring::perf
