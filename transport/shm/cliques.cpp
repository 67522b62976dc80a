#include "transport/shm/cliques.hpp"

#include <algorithm>
#include <cstddef>

namespace ucxring::shm {
std::vector<int> find_hosts(const std::vector<Contacts>& met) {
  std::vector<std::vector<Rank>> hosts;
  std::vector<int> host_of;
  const auto share = [&](Rank a, Rank b) {
    return find(met[static_cast<std::size_t>(a.value)], b) != nullptr &&
           find(met[static_cast<std::size_t>(b.value)], a) != nullptr;
  };
  for (int index = 0; index < static_cast<int>(met.size()); ++index) {
    const Rank rank(index);
    auto host = std::find_if(hosts.begin(), hosts.end(), [&](const std::vector<Rank>& members) {
      return std::all_of(members.begin(), members.end(), [&](Rank member) { return share(rank, member); });
    });
    if (host == hosts.end()) host = hosts.insert(hosts.end(), std::vector<Rank>());
    host->push_back(rank);
    host_of.push_back(static_cast<int>(host - hosts.begin()));
  }
  return host_of;
}

}  // namespace ucxring::shm
