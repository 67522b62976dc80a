// Which ranks share a host, for tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace ucxring::testing {

/// For each rank the number of its host, as of `Transport::hosts()`.
using Layout = std::vector<int>;

/// Consecutive ranks share a host, `per_host` each; the last host may have fewer.
inline Layout even_layout(int world_size, int per_host) {
  Layout hosts;
  for (int rank = 0; rank < world_size; ++rank) hosts.push_back(rank / per_host);
  return hosts;
}

/// A layout with neither order nor balance, the same for the same arguments on every machine.
inline Layout random_layout(int world_size, unsigned seed) {
  unsigned state = seed * 2654435761U + static_cast<unsigned>(world_size);
  const auto below = [&](int limit) {
    state =
        state * 1664525U + 1013904223U;  // Numerical Recipes' generator; its high bits are good enough here
    return static_cast<int>((state >> 16U) % static_cast<unsigned>(limit));
  };
  const int most_hosts = 2 + below(world_size - 1);
  std::vector<int> number_of(static_cast<std::size_t>(most_hosts), -1);
  int hosts = 0;
  Layout layout;
  for (int rank = 0; rank < world_size; ++rank) {
    // The smaller of two draws: low hosts have more ranks.
    int& number = number_of[static_cast<std::size_t>(std::min(below(most_hosts), below(most_hosts)))];
    if (number < 0) number = hosts++;
    layout.push_back(number);
  }
  return layout;
}

/// "0 0 1", for messages.
inline std::string describe(const Layout& layout) {
  std::string text;
  for (const int host : layout) text += (text.empty() ? "" : " ") + std::to_string(host);
  return text;
}

}  // namespace ucxring::testing
