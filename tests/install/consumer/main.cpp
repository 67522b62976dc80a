// A program without torch: two ranks, here as threads, sum a vector through the installed library.
#include <array>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/communicator.hpp"
#include "transport/store.hpp"

namespace {

constexpr int kWorldSize = 2;

float sum_on(const std::shared_ptr<ucxring::Store>& store, int rank) {
  const auto communicator = ucxring::Communicator::create(store, ucxring::Rank(rank), kWorldSize, {});
  std::vector<float> data(1000, static_cast<float>(rank + 1));
  communicator->all_reduce(std::span(data));
  return data.back();
}

}  // namespace

int main() {
  const auto store = ucxring::make_memory_store();
  std::array<float, kWorldSize> results{};
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < kWorldSize; ++rank) {
    ranks.emplace_back([&, rank] { results.at(static_cast<std::size_t>(rank)) = sum_on(store, rank); });
  }
  ranks.clear();
  std::cout << "sums: " << results[0] << ' ' << results[1] << '\n';
  return results[0] == 3.0F && results[1] == 3.0F ? 0 : 1;
}
