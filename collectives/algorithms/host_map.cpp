#include "collectives/algorithms/host_map.hpp"

#include <algorithm>

namespace ucxring {

HostMap::HostMap(const GroupShape& shape)
    : ranks_(number(shape.host_count())), own_(shape.host_of(shape.rank)) {
  places_.reserve(number(shape.world_size));
  for (int rank = 0; rank < shape.world_size; ++rank) {
    const int host = shape.host_of(Rank(rank));
    std::vector<Rank>& ranks = ranks_[number(host)];
    places_.push_back({host, static_cast<int>(ranks.size())});
    ranks.emplace_back(rank);
  }
}

int HostMap::wrap(int host) const noexcept {
  const int remainder = host % hosts();
  return remainder < 0 ? remainder + hosts() : remainder;
}

Rank HostMap::carrier(Rank rank, int host) const noexcept {
  const auto there = ranks(host);
  return there[number(index_of(rank)) % there.size()];
}

std::vector<Rank> HostMap::leaders() const {
  std::vector<Rank> leaders;
  for (const auto& ranks : ranks_) leaders.push_back(ranks.front());
  return leaders;
}

std::vector<Rank> HostMap::heads(Rank root) const {
  std::vector<Rank> heads{root};
  for (int distance = 1; distance < hosts(); ++distance) {
    heads.push_back(ranks(host_of(root) + distance).front());
  }
  return heads;
}

std::vector<Rank> HostMap::elsewhere(int direction) const {
  std::vector<Rank> others;
  for (int distance = 1; distance < hosts(); ++distance) {
    const auto there = ranks(own_ + direction * distance);
    others.insert(others.end(), there.begin(), there.end());
  }
  return others;
}

int HostMap::fewest() const noexcept {
  const auto smaller = [](const auto& one, const auto& other) { return one.size() < other.size(); };
  return static_cast<int>(std::min_element(ranks_.begin(), ranks_.end(), smaller)->size());
}

bool has_hierarchy(const GroupShape& shape) {
  const int hosts = shape.host_count();
  return hosts >= 2 && hosts < shape.world_size;
}

}  // namespace ucxring
