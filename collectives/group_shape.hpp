// What a builder of schedules needs to know of the group.
#pragma once

#include "transport/types.hpp"

namespace ucxring {

/// The rank to build for, the size of its group, and the root of a rooted collective.
struct GroupShape {
  Rank rank;
  int world_size = 1;
  Rank root{0};

  /// The rank `distance` places after this one (before it when negative), around the ring of all ranks.
  [[nodiscard]] constexpr Rank neighbor(int distance) const noexcept {
    return Rank(wrap(rank.value + distance));
  }
  /// `index` modulo the world size, never negative.
  [[nodiscard]] constexpr int wrap(int index) const noexcept {
    const int remainder = index % world_size;
    return remainder < 0 ? remainder + world_size : remainder;
  }
};

}  // namespace ucxring
