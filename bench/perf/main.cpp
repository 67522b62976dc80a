#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "bench/perf/local_ranks.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/run.hpp"

int main(int argc, char** argv) {
  using namespace ucxring::perf;
  try {
    int exit_status = kRight;
    std::optional<Options> options = parse_options(argc, argv, exit_status);
    if (!options) return exit_status;
    if (options->rank) return run_rank(*options, *options->rank);
    const TemporaryFolder folder;
    options->store = folder.path();
    return run_local_ranks(options->world_size, [&](int rank) { return run_rank(*options, rank); });
  } catch (const std::exception& error) {
    fmt::print(stderr, "ucxring_perf: {}\n", error.what());
    return kRankFailed;
  }
}
