// All algorithms, as data. Adding one: its file, a row in registry.cpp, its line in CMakeLists.txt, its row
// in the docs.
#pragma once

#include <span>
#include <string_view>

#include "collectives/collective.hpp"
#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

struct Algorithm {
  Collective collective;
  std::string_view name;     ///< as in `UCXRING_ALGORITHM`: "ring"
  std::string_view summary;  ///< one line for the docs and the tuning table
  Schedule (*build)(const GroupShape& shape);
  bool (*supports)(const GroupShape& shape);  ///< groups it is defined for (size 1 is handled before)
  /// Whether every element's contributions are combined in the same order, wherever it lies, however long the
  /// vector is and whoever shares a host (`UCXRING_DETERMINISTIC`). Without meaning where nothing is
  /// combined.
  bool fixed_order = false;
  /// Whether it moves chunks of sizes that differ between ranks, each known to those who send or receive it.
  /// Without meaning where all ranks have chunks of equal sizes.
  bool uneven = false;
};

/// Every algorithm; tests, benchmarks and documentation iterate this. Of algorithms that are predicted to
/// take equally long, the first one is chosen.
[[nodiscard]] std::span<const Algorithm> algorithms() noexcept;

/// The algorithm `name` of `collective`, null when there is none.
[[nodiscard]] const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept;

}  // namespace ucxring
