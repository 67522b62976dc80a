// The command line of ucxring_perf.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/perf/benchmarks.hpp"
#include "bench/perf/measure.hpp"
#include "transport/base/config.hpp"

namespace ucxring::perf {

/// What to do, checked.
struct Options {
  const Benchmark* benchmark = nullptr;
  std::vector<std::size_t> sizes;  ///< bytes of the whole vector, rising
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  Method method;
  bool out_of_place = true;
  bool in_place = true;
  int world_size = 2;
  std::optional<int> rank;  ///< set: this process is one rank of a job that was started from outside
  std::string store;        ///< folder through which the ranks meet; empty: a temporary one
  std::string master_host;  ///< as in `Communicator::Options`
  bool bind = false;        ///< pin each rank to a core
  std::chrono::milliseconds timeout{0};
  bool print_cpu = false;
  bool registered = false;
  std::string json_file;  ///< empty: none
  Config config;
};

/// Parses the command line and the `UCXRING_*` variables. Nothing when there is nothing to run: help was
/// asked for, or the usage is bad, which is printed; then `exit_status` is set.
[[nodiscard]] std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace ucxring::perf
