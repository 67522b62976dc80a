// What is validated, and where the chunks of each rank lie.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "collectives/collective.hpp"
#include "collectives/schedule.hpp"

namespace ucxring::symbolic {

/// The schedules of all ranks and what they should do. Refers to the caller's schedules.
struct Problem {
  std::span<const Schedule> schedules;
  Collective collective;
  Rank root;

  [[nodiscard]] int world_size() const noexcept { return static_cast<int>(schedules.size()); }
  [[nodiscard]] const Schedule& of(int rank) const noexcept {
    return schedules[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const Step& step(int rank, std::size_t index) const noexcept { return of(rank).steps[index]; }

  /// Share of the vector's bytes in one chunk (nothing in a signal).
  [[nodiscard]] double bytes_of(ChunkRef chunk) const noexcept;

  /// "rank 3, step 5 (send input[0] to rank 1): why", as a failure of `rank`.
  [[nodiscard]] Status complaint(int rank, std::size_t index, std::string_view why) const;
};

/// The memory of one rank: which chunks exist, which of them have equal sizes, which are the same memory.
class Layout {
 public:
  Layout(const Problem& problem, int rank) noexcept
      : schedule_(&problem.of(rank)), collective_(problem.collective), rank_(rank) {}

  /// Whether `chunk` exists. False for a signal.
  [[nodiscard]] bool contains(ChunkRef chunk) const noexcept;

  /// The size of an existing chunk, or of a signal, as a number that is equal for equal sizes on all ranks.
  /// Chunks of a cut vector differ in size, and so do the contributions to an all-gather, so each index is a
  /// size of its own.
  [[nodiscard]] int size_class(ChunkRef chunk) const noexcept;

  /// Number of the memory cell that an existing chunk lies in, in [0, cells()).
  [[nodiscard]] std::size_t cell(ChunkRef chunk, bool in_place) const noexcept;
  [[nodiscard]] std::size_t cells() const noexcept;

 private:
  [[nodiscard]] ChunkRef home(ChunkRef chunk) const noexcept;

  const Schedule* schedule_;
  Collective collective_;
  int rank_;
};

}  // namespace ucxring::symbolic
