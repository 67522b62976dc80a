// What was measured, as nccl-tests prints it and as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/perf/options.hpp"

namespace ucxring::perf {

/// Both measurements of one size; one may be missing.
struct Line {
  std::optional<Row> out_of_place;
  std::optional<Row> in_place;
};

/// The lines before the first size.
[[nodiscard]] std::string heading(const Options& options, std::string_view transport);
/// The line of one size.
[[nodiscard]] std::string to_text(const Options& options, const Line& line);
/// The lines after the last size.
[[nodiscard]] std::string summary(const Options& options, const std::vector<Line>& lines);
/// Wrong elements in all rows; 0 for rows that were not checked.
[[nodiscard]] std::uint64_t count_wrong(const std::vector<Line>& lines);
/// The document that docs/benchmarks.md describes.
[[nodiscard]] std::string to_json(const Options& options, std::string_view transport,
                                  const std::vector<Line>& lines);

}  // namespace ucxring::perf
