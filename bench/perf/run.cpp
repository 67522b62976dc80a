#include "bench/perf/run.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/perf/local_ranks.hpp"
#include "bench/perf/report.hpp"

namespace ucxring::perf {
namespace {

void print(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

void require_written(const std::ofstream& file, const std::string& path) {
  if (!file) throw Error(ErrorCode::invalid_argument, fmt::format("cannot write {}", path));
}

std::unique_ptr<Communicator> join(const Options& options, const std::shared_ptr<Store>& store, int rank) {
  Communicator::Options group;
  group.config = options.config;
  group.timeout = options.timeout;
  group.master_host = options.master_host;
  return Communicator::create(store, Rank(rank), options.world_size, group);
}

std::vector<Line> measure_all(const Options& options, Communicator& communicator, Exchange& exchange) {
  const Buffers buffers = make_buffers(options.sizes.back(), options.registered);
  const int rank = communicator.rank().value;
  std::vector<Line> lines;
  for (const std::size_t bytes : options.sizes) {
    const Problem problem{options.type, options.op, options.root, rank, options.world_size, bytes};
    const auto measured = [&](bool wanted, bool in_place) -> std::optional<Row> {
      if (!wanted) return std::nullopt;
      const Call call = make_call(communicator, *options.benchmark, problem, buffers, in_place);
      return measure(*options.benchmark, call, in_place, options.method, exchange);
    };
    lines.push_back({measured(options.out_of_place, false), measured(options.in_place, true)});
    if (rank == 0) print(to_text(options, lines.back()));
  }
  return lines;
}

int run(const Options& options, int rank, std::unique_ptr<Communicator>& communicator) {
  if (options.bind) bind_to_core(rank);
  const auto store = make_file_store(options.store);
  communicator = join(options, store, rank);
  Exchange exchange(store, Rank(rank), options.world_size, options.timeout);

  const bool writes = rank == 0 && !options.json_file.empty();
  std::ofstream file;
  if (writes) file.open(options.json_file);
  require_written(file, options.json_file);  // before hours of measurement
  if (rank == 0) print(heading(options, communicator->transport_name()));
  const std::vector<Line> lines = measure_all(options, *communicator, exchange);
  if (rank == 0) print(summary(options, lines));
  if (writes) file << to_json(options, communicator->transport_name(), lines) << std::flush;
  require_written(file, options.json_file);

  // Nobody leaves while another still measures.
  communicator->barrier().wait().throw_if_error();
  return count_wrong(lines) == 0 ? kRight : kWrong;
}

}  // namespace

int run_rank(const Options& options, int rank) {
  // It is left after a failure has been printed, so that the peers' complaints come after their cause.
  std::unique_ptr<Communicator> communicator;
  try {
    return run(options, rank, communicator);
  } catch (const std::exception& error) {
    fmt::print(stderr, "ucxring_perf: rank {}: {}\n", rank, error.what());
    return kRankFailed;
  }
}

}  // namespace ucxring::perf
