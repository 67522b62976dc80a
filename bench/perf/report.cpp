#include "bench/perf/report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace ucxring::perf {
namespace {

/// Bandwidths in GB/s, 10⁹ bytes.
double algorithm_bandwidth(const Row& row) { return static_cast<double>(row.bytes) / row.median_us * 1e-3; }

double bus_bandwidth(const Options& options, const Row& row) {
  return algorithm_bandwidth(row) * options.benchmark->bus_factor(options.world_size);
}

/// As many digits as nccl-tests shows.
std::string time_text(double microseconds) {
  if (microseconds >= 10000) return fmt::format("{:.0f}", microseconds);
  return microseconds >= 100 ? fmt::format("{:.1f}", microseconds) : fmt::format("{:.2f}", microseconds);
}

std::string half_line(const Options& options, const std::optional<Row>& row) {
  constexpr std::string_view kColumns = "  {:>7}  {:>6}  {:>6}  {:>5}";
  const std::string cpu_column = options.print_cpu ? "  {:>6}" : "";
  if (!row) {
    return fmt::format(kColumns, "N/A", "N/A", "N/A", "N/A") + fmt::format(fmt::runtime(cpu_column), "N/A");
  }
  const std::string wrong = row->wrong ? std::to_string(*row->wrong) : "N/A";
  return fmt::format(kColumns, time_text(row->median_us), fmt::format("{:.2f}", algorithm_bandwidth(*row)),
                     fmt::format("{:.2f}", bus_bandwidth(options, *row)), wrong) +
         fmt::format(fmt::runtime(cpu_column), fmt::format("{:.2f}", row->cpu_s_per_gb));
}

std::vector<Row> rows_of(const std::vector<Line>& lines) {
  std::vector<Row> rows;
  for (const Line& line : lines) {
    for (const auto* row : {&line.out_of_place, &line.in_place}) {
      if (*row) rows.push_back(**row);
    }
  }
  return rows;
}

nlohmann::ordered_json to_json(const Row& row) {
  return {{"bytes", row.bytes},
          {"in_place", row.in_place},
          {"iterations", row.iterations},
          {"samples_us", row.samples_us},
          {"median_us", row.median_us},
          {"best_us", row.best_us},
          {"wrong", row.wrong ? nlohmann::ordered_json(*row.wrong) : nlohmann::ordered_json()},
          {"cpu_s_per_gb", row.cpu_s_per_gb}};
}

}  // namespace

std::string heading(const Options& options, std::string_view transport) {
  const Method& method = options.method;
  const std::string calls = method.time_per_size.count() > 0
                                ? fmt::format("{:g} ms a size", method.time_per_size.count() * 1e3)
                                : fmt::format("{} iters", method.iterations);
  const std::string cpu_column = options.print_cpu ? "     cpu" : "";
  const std::string cpu_unit = options.print_cpu ? "  (s/GB)" : "";
  std::string text = fmt::format("# ucxring_perf {}: {}, {} ranks over {}\n", UCXRING_VERSION,
                                 options.benchmark->name, options.world_size, transport);
  text +=
      fmt::format("# {}, {} trials, {} warmup iters, validation {}, {}\n#\n", calls, method.trials,
                  method.warmup, method.check ? 1 : 0, options.bind ? "ranks pinned" : "ranks not pinned");
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>20}{:>{}}\n", "", "", "", "", "",
                      "out-of-place", "in-place", options.print_cpu ? 38 : 30);
  const auto half = [](auto time, auto algbw, auto busbw, auto wrong, const std::string& cpu) {
    return fmt::format("  {:>7}  {:>6}  {:>6}  {:>5}{}", time, algbw, busbw, wrong, cpu);
  };
  const std::string names = half("time", "algbw", "busbw", "#wrong", cpu_column);
  const std::string units = half("(us)", "(GB/s)", "(GB/s)", "", cpu_unit);
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", "size", "count", "type", "redop", "root",
                      names, names);
  return text + fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", "(B)", "(elements)", "", "", "",
                            units, units);
}

std::string to_text(const Options& options, const Line& line) {
  const Benchmark& benchmark = *options.benchmark;
  Problem problem;
  problem.type = options.type;
  problem.world_size = options.world_size;
  problem.bytes = (line.out_of_place ? line.out_of_place : line.in_place)->bytes;
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", problem.bytes, benchmark.count(problem),
                     to_string(options.type), benchmark.reduces ? to_string(options.op) : "none",
                     benchmark.rooted ? options.root : -1, half_line(options, line.out_of_place),
                     half_line(options, line.in_place));
}

std::string summary(const Options& options, const std::vector<Line>& lines) {
  const std::vector<Row> rows = rows_of(lines);
  double total = 0;
  for (const Row& row : rows) total += bus_bandwidth(options, row);
  const std::uint64_t wrong = count_wrong(lines);
  return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}\n#\n", wrong,
                     wrong == 0 ? "OK" : "FAILED", total / static_cast<double>(rows.size()));
}

std::uint64_t count_wrong(const std::vector<Line>& lines) {
  std::uint64_t wrong = 0;
  for (const Row& row : rows_of(lines)) wrong += row.wrong.value_or(0);
  return wrong;
}

std::string to_json(const Options& options, std::string_view transport, const std::vector<Line>& lines) {
  nlohmann::ordered_json document{{"program", "ucxring_perf"},
                                  {"version", UCXRING_VERSION},
                                  {"collective", options.benchmark->name},
                                  {"dtype", to_string(options.type)},
                                  {"op", to_string(options.op)},
                                  {"ranks", options.world_size},
                                  {"transport", transport},
                                  {"rows", nlohmann::ordered_json::array()}};
  for (const Row& row : rows_of(lines)) document["rows"].push_back(to_json(row));
  return document.dump(1) + "\n";
}

}  // namespace ucxring::perf
