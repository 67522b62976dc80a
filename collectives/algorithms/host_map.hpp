// Who shares a host with whom, as the hierarchical algorithms ask it.
#pragma once

#include <span>
#include <vector>

#include "collectives/group_shape.hpp"

namespace ucxring {

/// The ranks of each host of a group, seen from the rank that a schedule is built for. Hosts are numbered as
/// in `GroupShape::hosts` and taken modulo their number, so that `own() + 1` is the next host around a ring.
class HostMap {
 public:
  explicit HostMap(const GroupShape& shape);

  /// How many hosts there are.
  [[nodiscard]] int hosts() const noexcept { return static_cast<int>(ranks_.size()); }
  /// `host` modulo the number of hosts, never negative.
  [[nodiscard]] int wrap(int host) const noexcept;
  [[nodiscard]] int host_of(Rank rank) const noexcept { return places_[number(rank)].host; }
  /// The host of the rank to build for.
  [[nodiscard]] int own() const noexcept { return own_; }
  /// The ranks of a host, ascending; never empty.
  [[nodiscard]] std::span<const Rank> ranks(int host) const noexcept { return ranks_[number(wrap(host))]; }
  /// Place of a rank among the ranks of its host, from 0.
  [[nodiscard]] int index_of(Rank rank) const noexcept { return places_[number(rank)].index; }
  /// The rank of `host` that carries what `rank` sends there, or is sent from there: ranks of equal index
  /// carry for each other, so that all ranks of a host share the work.
  [[nodiscard]] Rank carrier(Rank rank, int host) const noexcept;
  /// The first rank of each host.
  [[nodiscard]] std::vector<Rank> leaders() const;
  /// One rank of each host: the root of its host, then the first rank of each host after that.
  [[nodiscard]] std::vector<Rank> heads(Rank root) const;
  /// The ranks of all other hosts: those of the next host first (`direction` 1), or of the previous one (−1).
  [[nodiscard]] std::vector<Rank> elsewhere(int direction) const;
  /// The smallest number of ranks on any host.
  [[nodiscard]] int fewest() const noexcept;

 private:
  struct Place {
    int host;
    int index;
  };
  [[nodiscard]] static std::size_t number(int value) noexcept { return static_cast<std::size_t>(value); }
  [[nodiscard]] static std::size_t number(Rank rank) noexcept { return number(rank.value); }

  std::vector<std::vector<Rank>> ranks_;  // by host
  std::vector<Place> places_;             // by rank
  int own_;
};

/// Whether a hierarchy makes sense: at least two hosts, and two ranks on one of them.
[[nodiscard]] bool has_hierarchy(const GroupShape& shape);

}  // namespace ucxring
