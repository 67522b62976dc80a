#include "bench/perf/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/perf/local_ranks.hpp"
#include "collectives/reduce/table.hpp"
#include "collectives/tuner.hpp"

namespace ucxring::perf {
namespace {

/// The options as they are written, before they are checked against each other.
struct Arguments {
  std::string collective = "all_reduce";
  std::size_t min_bytes = 8;
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t factor = 2;
  std::size_t step = 0;
  double time_per_size_ms = 0;
  std::string type = "float32";
  std::string op = "sum";
  int check = 1;
  bool in_place = false;
  bool out_of_place = false;
  int rank = 0;
  double timeout_s = 120;
  std::string transport;
  std::string algorithm;
  std::vector<std::string> settings;
};

[[noreturn]] void refuse(const std::string& why) { throw CLI::ValidationError(why); }

template <typename Enum>
std::vector<std::string> names(int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.emplace_back(to_string(static_cast<Enum>(i)));
  return all;
}

/// The enumerator of that name, which exists.
template <typename Enum>
Enum named(const std::string& name) {
  int i = 0;
  while (to_string(static_cast<Enum>(i)) != name) ++i;
  return static_cast<Enum>(i);
}

std::string collectives_help() {
  std::string text = "What to measure:";
  for (const Benchmark& each : benchmarks()) text += fmt::format("\n{:14} {}", each.name, each.summary);
  return text;
}

std::vector<std::string> collective_names() {
  std::vector<std::string> all;
  for (const Benchmark& each : benchmarks()) all.emplace_back(each.name);
  return all;
}

void add_what(CLI::App& app, Arguments& arguments, Options& options) {
  const auto bytes = CLI::AsSizeValue(false);
  app.add_option("collective", arguments.collective, collectives_help())
      ->check(CLI::IsMember(collective_names()))
      ->capture_default_str();
  app.add_option("-b,--minbytes", arguments.min_bytes, "Smallest size of the whole vector: 8, 1K, 64M, 1G")
      ->transform(bytes)
      ->capture_default_str();
  app.add_option("-e,--maxbytes", arguments.max_bytes, "Largest size")
      ->transform(bytes)
      ->capture_default_str();
  auto* factor = app.add_option("-f,--stepfactor", arguments.factor, "Each size is that many times the last")
                     ->check(CLI::Range(2, 1 << 20))
                     ->capture_default_str();
  app.add_option("-i,--stepbytes", arguments.step, "Each size is that much more than the last, instead of -f")
      ->transform(bytes)
      ->excludes(factor);
  app.add_option("-d,--datatype", arguments.type, "Element type")
      ->check(CLI::IsMember(names<DataType>(kDataTypes)))
      ->capture_default_str();
  app.add_option("-o,--op", arguments.op, "Reduction")
      ->check(CLI::IsMember(names<ReduceOp>(kReduceOps)))
      ->capture_default_str();
  app.add_option("-r,--root", options.root, "Root of broadcast, reduce, gather and scatter")
      ->capture_default_str();
  app.add_flag("--out-of-place", arguments.out_of_place, "Only with separate buffers");
  app.add_flag("--in-place", arguments.in_place, "Only in place");
}

void add_method(CLI::App& app, Arguments& arguments, Options& options) {
  auto* iterations = app.add_option("-n,--iters", options.method.iterations, "Calls of a trial")
                         ->check(CLI::Range(1, 1'000'000'000))
                         ->capture_default_str();
  app.add_option("--time-per-size", arguments.time_per_size_ms,
                 "Milliseconds for all trials of a size; chooses the calls of a trial, instead of -n")
      ->check(CLI::PositiveNumber)
      ->excludes(iterations);
  app.add_option("-w,--warmup_iters", options.method.warmup, "Calls before the first trial")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--trials", options.method.trials, "Trials of each size; the median is shown")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("-c,--check", arguments.check, "1: compare every element before and after timing, 0: do not")
      ->check(CLI::IsMember({0, 1}))
      ->capture_default_str();
  app.add_flag("--registered", options.registered,
               "Vectors in registered memory, which ranks of a host use in place");
  app.add_flag("--cpu", options.print_cpu, "Also print CPU seconds of all ranks per GB (10^9 bytes)");
  app.add_option("-J,--json", options.json_file, "Write everything, with all samples, to this file")
      ->option_text("FILE");
}

void add_ranks(CLI::App& app, Arguments& arguments, Options& options) {
  auto* ranks = app.add_option("--ranks", options.world_size, "Ranks to start on this machine")
                    ->check(CLI::Range(1, 4096))
                    ->capture_default_str();
  auto* store = app.add_option("--store", options.store,
                               "Be one rank of a job that something else starts, perhaps on several hosts: a "
                               "folder that all ranks see, new for each run")
                    ->option_text("FOLDER")
                    ->excludes(ranks);
  auto* rank =
      app.add_option("--rank", arguments.rank, "This rank; with --store")->check(CLI::NonNegativeNumber);
  auto* world_size = app.add_option("--world-size", options.world_size, "Ranks in all; with --store")
                         ->check(CLI::Range(1, 4096));
  rank->needs(store);
  world_size->needs(store);
  store->needs(rank)->needs(world_size);
  app.add_option("--master-host", options.master_host,
                 "With --store: a host that all ranks reach; picks the network interface")
      ->needs(store);
  app.add_flag("--bind,!--no-bind", options.bind,
               "Pin rank r to the r-th core that is allowed, round robin. Done without being asked when the "
               "ranks started here are not more than the cores");
  app.add_option("--timeout", arguments.timeout_s, "Seconds an operation, or a rank on its way, may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void add_settings(CLI::App& app, Arguments& arguments) {
  app.add_option("--transport", arguments.transport, "Like UCXRING_TRANSPORT: auto, shm, ucx");
  app.add_option("--algorithm", arguments.algorithm, "Use only this algorithm of the collective")
      ->option_text("NAME");
  app.add_option("--set", arguments.settings, "Any setting of ucxring, e.g. SLICE_BYTES=64Ki; repeatable")
      ->option_text("NAME=VALUE")
      ->allow_extra_args(false);
}

void apply_settings(const Arguments& arguments, Options& options) {
  options.config = config_from_environment();
  for (const std::string& setting : arguments.settings) {
    const auto equals = setting.find('=');
    if (equals == std::string::npos) refuse(fmt::format("--set {}: write NAME=VALUE", setting));
    set_config(options.config, setting.substr(0, equals), setting.substr(equals + 1));
  }
  if (!arguments.transport.empty()) set_config(options.config, "TRANSPORT", arguments.transport);
  if (!arguments.algorithm.empty()) {
    options.config.algorithm = fmt::format("{}:{}", arguments.collective, arguments.algorithm);
  }
  check_choice(options.config);
}

std::vector<std::size_t> sizes(const Arguments& arguments, const Options& options) {
  if (arguments.min_bytes == 0) refuse("--minbytes: at least 1 byte");
  if (arguments.min_bytes > arguments.max_bytes) refuse("--minbytes is larger than --maxbytes");
  std::vector<std::size_t> all;
  std::size_t bytes = arguments.min_bytes;
  while (bytes <= arguments.max_bytes) {
    all.push_back(options.benchmark->round(bytes, options.type, options.world_size));
    bytes = arguments.step > 0 ? bytes + arguments.step : bytes * arguments.factor;
  }
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

void choose_places(const Arguments& arguments, Options& options) {
  const bool both = arguments.in_place == arguments.out_of_place;
  options.in_place = options.benchmark->in_place && (both || arguments.in_place);
  options.out_of_place = options.benchmark->out_of_place && (both || arguments.out_of_place);
  if (!options.in_place && !options.out_of_place) {
    refuse(fmt::format("{} works only {}", arguments.collective,
                       options.benchmark->in_place ? "in place" : "out of place"));
  }
}

void check_reduction(const Options& options) {
  if (!options.benchmark->reduces) return;
  (void)find_reduction(options.type, options.op);  // throws when there is none
  if (options.method.check && !has_exact_contributions(options.type, options.op, options.world_size)) {
    refuse(fmt::format("the {} of {} over {} ranks is not exact and cannot be checked; add -c 0",
                       to_string(options.op), to_string(options.type), options.world_size));
  }
}

/// What the parser alone cannot tell.
void finish(const CLI::App& app, const Arguments& arguments, Options& options) {
  options.benchmark = find_benchmark(arguments.collective);
  options.type = named<DataType>(arguments.type);
  options.op = named<ReduceOp>(arguments.op);
  options.method.check = arguments.check == 1;
  options.method.time_per_size = std::chrono::duration<double>(arguments.time_per_size_ms / 1e3);
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(arguments.timeout_s * 1e3));
  if (app.count("--rank") > 0) {
    options.rank = arguments.rank;
    if (arguments.rank >= options.world_size) refuse("--rank: must be below --world-size");
  } else {
    options.master_host = "localhost";
    if (app.count("--bind") == 0) options.bind = options.world_size <= allowed_cores();
  }
  if (options.root < 0 || options.root >= options.world_size) {
    refuse(fmt::format("--root {}: there are ranks 0 to {}", options.root, options.world_size - 1));
  }
  apply_settings(arguments, options);
  choose_places(arguments, options);
  check_reduction(options);
  options.sizes = sizes(arguments, options);
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  Arguments arguments;
  Options options;
  CLI::App app("Measures ucxring's collectives as nccl-tests measures NCCL's, and checks every element.",
               "ucxring_perf");
  app.set_version_flag("--version", std::string("ucxring_perf " UCXRING_VERSION));
  app.footer("Exit status: 0 right, 1 wrong elements, 2 bad usage, 3 a rank failed.");
  app.get_formatter()->column_width(34);
  add_what(app, arguments, options);
  add_method(app, arguments, options);
  add_ranks(app, arguments, options);
  add_settings(app, arguments);
  try {
    app.parse(argc, argv);
    finish(app, arguments, options);
    return options;
  } catch (const CLI::ParseError& error) {
    exit_status = app.exit(error) == 0 ? kRight : kBadUsage;
  } catch (const Error& error) {
    exit_status = kBadUsage;
    app.exit(CLI::ValidationError(error.what()));
  }
  return std::nullopt;
}

}  // namespace ucxring::perf
