// All algorithms, as data. Adding one: its file, a row in registry.cpp, its line in CMakeLists.txt, its row
// in the docs.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include "collectives/collective.hpp"
#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// Where an algorithm is preferred, from cost models and measurement. An empty range (`max_bytes` 0) is never
/// chosen unless a preference leaves nothing better.
struct PreferredRange {
  std::size_t max_bytes = 0;  ///< of the operation, inclusive
  int min_world_size = 2;
  int max_world_size = std::numeric_limits<int>::max();
};

struct Algorithm {
  Collective collective;
  std::string_view name;     ///< as in `UCXRING_ALGORITHM`: "ring"
  std::string_view summary;  ///< one line for the docs and the tuning table
  Schedule (*build)(const GroupShape& shape);
  bool (*supports)(int world_size);  ///< world sizes it is defined for (size 1 is handled before)
  PreferredRange preferred;  ///< the first row of a collective whose range fits is chosen, else its last row
};

/// Every algorithm; tests, benchmarks and documentation iterate this.
[[nodiscard]] std::span<const Algorithm> algorithms() noexcept;

/// The algorithm `name` of `collective`, null when there is none.
[[nodiscard]] const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept;

/// The algorithm for an operation of `bytes` bytes (the larger of input and output) in a group of
/// `world_size`, honouring `preference` in the grammar of `UCXRING_ALGORITHM` (collectives/preference.hpp). A
/// pure function: all ranks choose alike. Throws `Error` (invalid_argument) for a preference that names
/// something unknown or leaves nothing.
[[nodiscard]] const Algorithm& choose_algorithm(Collective collective, std::size_t bytes, int world_size,
                                                std::string_view preference);

/// Checks the grammar and the names of a preference without choosing. Throws as above.
void check_preference(std::string_view preference);

}  // namespace ucxring
