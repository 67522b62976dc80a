// What can be measured: one table, one row for each collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bench/perf/patterns.hpp"
#include "collectives/communicator.hpp"

namespace ucxring::perf {

/// One operation as one rank sees it.
struct Problem {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int rank = 0;
  int world_size = 1;
  std::size_t bytes = 0;  ///< of the whole vector, the larger of input and output

  /// Bytes of one rank's part where the vector is divided among the ranks.
  [[nodiscard]] std::size_t part() const noexcept { return bytes / static_cast<std::size_t>(world_size); }
};

/// Arguments of the timed calls.
struct Call {
  Communicator& communicator;
  ConstBuffer input;
  Buffer output;
  Problem problem;
  CallOptions options;
};

/// Contents that a range of the output must have.
struct Expected {
  std::size_t offset = 0;  ///< bytes into the output
  std::size_t bytes = 0;
  Pattern pattern;
  std::size_t first = 0;  ///< number of the pattern's element at `offset`
};

/// How much of the vector a buffer holds.
enum class Extent : std::uint8_t { nothing, part, whole };

/// One row of the table.
struct Benchmark {
  std::string_view name;     ///< as in `UCXRING_ALGORITHM`; "memcpy" is no collective
  std::string_view summary;  ///< for --help
  Extent input = Extent::whole;
  Extent output = Extent::whole;
  bool divided = false;  ///< among the ranks, though both buffers are whole
  bool reduces = false;
  bool rooted = false;
  bool out_of_place = true;
  bool in_place = true;  ///< with the smaller buffer at the rank's part of the larger one
  /// Bus bandwidth divided by algorithm bandwidth: the bytes that a rank's link must carry in each direction
  /// for each byte of the vector, as nccl-tests defines it (its doc/PERFORMANCE.md).
  double (*bus_factor)(int world_size);
  /// Makes the call `times` times, each after the former has finished. Throws `Error` when one fails.
  void (*repeat)(const Call& call, std::uint64_t times);
  /// What the output must hold afterwards.
  std::vector<Expected> (*expected)(const Problem& problem);

  /// Bytes of a buffer of that extent.
  [[nodiscard]] static std::size_t size(Extent extent, const Problem& problem) noexcept;
  /// The nearest possible size: whole elements, equally many for each rank where the vector is divided, at
  /// least one each.
  [[nodiscard]] std::size_t round(std::size_t bytes, DataType type, int world_size) const noexcept;
  /// Elements as nccl-tests counts them: of the smaller buffer.
  [[nodiscard]] std::size_t count(const Problem& problem) const noexcept;
  /// What the input holds beforehand.
  [[nodiscard]] Pattern input_pattern(const Problem& problem) const;
};

/// The table.
[[nodiscard]] std::span<const Benchmark> benchmarks() noexcept;

/// The row of that name, null when there is none.
[[nodiscard]] const Benchmark* find_benchmark(std::string_view name) noexcept;

}  // namespace ucxring::perf
