// What a builder of schedules needs to know of the group.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "transport/types.hpp"

namespace ucxring {

/// The rank to build for, the size of its group, the root of a rooted collective, and who shares a host.
struct GroupShape {
  Rank rank;
  int world_size = 1;
  Rank root{0};
  std::span<const int> hosts{};  ///< as `Transport::hosts()`; empty: every rank is its own host

  /// The rank `distance` places after this one (before it when negative), around the ring of all ranks.
  [[nodiscard]] constexpr Rank neighbor(int distance) const noexcept {
    return Rank(wrap(rank.value + distance));
  }
  /// `index` modulo the world size, never negative.
  [[nodiscard]] constexpr int wrap(int index) const noexcept {
    const int remainder = index % world_size;
    return remainder < 0 ? remainder + world_size : remainder;
  }
  /// Number of the host of `member`.
  [[nodiscard]] int host_of(Rank member) const noexcept {
    return hosts.empty() ? member.value : hosts[static_cast<std::size_t>(member.value)];
  }
  [[nodiscard]] int host_count() const noexcept {
    return hosts.empty() ? world_size : *std::max_element(hosts.begin(), hosts.end()) + 1;
  }
  /// The ranks of a host, ascending.
  [[nodiscard]] std::vector<int> ranks_on(int host) const {
    std::vector<int> ranks;
    for (int member = 0; member < world_size; ++member) {
      if (host_of(Rank(member)) == host) ranks.push_back(member);
    }
    return ranks;
  }
};

}  // namespace ucxring
