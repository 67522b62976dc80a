// What is validated, and where the chunks of each rank lie.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "collectives/collective.hpp"
#include "collectives/schedule.hpp"
#include "collectives/validate.hpp"

namespace ucxring::symbolic {

/// The schedules of all ranks and what they should do. Refers to the caller's schedules.
struct Problem {
  std::span<const Schedule> schedules;
  Collective collective;
  Rank root;
  Parts parts = Parts::uneven;

  [[nodiscard]] int world_size() const noexcept { return static_cast<int>(schedules.size()); }
  [[nodiscard]] const Schedule& of(int rank) const noexcept {
    return schedules[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const Step& step(int rank, std::size_t index) const noexcept { return of(rank).steps[index]; }

  /// Share of the vector's bytes in one chunk (nothing in a signal).
  [[nodiscard]] double bytes_of(ChunkRef chunk) const noexcept;

  /// Likewise in a single chunk.
  [[nodiscard]] double bytes_of_one() const noexcept;

  /// "rank 3, step 5 (send input[0] to rank 1): why", as a failure of `rank`.
  [[nodiscard]] Status complaint(int rank, std::size_t index, std::string_view why) const;
};

/// The memory of one rank: which chunks exist, which of them have equal sizes, which are the same memory.
class Layout {
 public:
  Layout(const Problem& problem, int rank) noexcept
      : schedule_(&problem.of(rank)),
        collective_(problem.collective),
        parts_(problem.parts),
        rank_(rank),
        world_size_(problem.world_size()) {}

  /// Whether `chunk` exists, and, if it is several, whether they lie together. False for a signal.
  [[nodiscard]] bool contains(ChunkRef chunk) const noexcept;

  /// The size of an existing chunk, or of a signal, as a number that is equal for equal sizes on all ranks.
  /// Chunks of a cut vector differ in size, and so may what ranks have for each other, so each index is a
  /// size of its own, unless all ranks have equal parts.
  [[nodiscard]] int size_class(ChunkRef chunk) const noexcept;

  /// Number of the memory cell that an existing chunk lies in, in [0, cells()).
  [[nodiscard]] std::size_t cell(ChunkRef chunk, bool in_place) const noexcept;
  [[nodiscard]] std::size_t cells() const noexcept;

 private:
  [[nodiscard]] bool is_bundle(ChunkRef chunk) const noexcept;
  [[nodiscard]] ChunkRef home(ChunkRef chunk) const noexcept;

  const Schedule* schedule_;
  Collective collective_;
  Parts parts_;
  int rank_;
  int world_size_;
};

}  // namespace ucxring::symbolic
