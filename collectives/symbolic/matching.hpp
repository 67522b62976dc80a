// Which receive takes which send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/symbolic/problem.hpp"

namespace ucxring::symbolic {

/// Pairs the i-th send from a to b with the i-th receive of b from a, for all a and b.
class Matching {
 public:
  /// Pairs all messages of a well-formed problem, or leaves in `status` what has no partner of its size.
  Matching(const Problem& problem, Status& status);

  /// Number of a step among those of all ranks, for per-step tables.
  [[nodiscard]] std::size_t number(int rank, std::size_t index) const noexcept {
    return first_[static_cast<std::size_t>(rank)] + index;
  }
  [[nodiscard]] std::size_t steps() const noexcept { return first_.back(); }
  [[nodiscard]] std::size_t messages() const noexcept { return messages_; }
  /// Index, in the schedule of its peer, of the step that a send or receive meets.
  [[nodiscard]] std::size_t partner(int rank, std::size_t index) const noexcept {
    return partner_[number(rank, index)];
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<std::uint32_t> partner_;
  std::size_t messages_ = 0;
};

}  // namespace ucxring::symbolic
