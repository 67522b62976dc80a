#include "tests/support/ucx_ranks.hpp"

#include <future>

#include "transport/ucx/ucx.hpp"

namespace ucxring::testing {

std::vector<std::unique_ptr<Transport>> make_ucx_ranks(int world_size, const std::shared_ptr<Store>& store) {
  std::vector<std::shared_ptr<Context>> contexts;
  for (int rank = 0; rank < world_size; ++rank) contexts.push_back(ucx::make_context(Config{}, "localhost"));
  return make_ucx_ranks(contexts, store);
}

std::vector<std::unique_ptr<Transport>> make_ucx_ranks(const std::vector<std::shared_ptr<Context>>& contexts,
                                                       const std::shared_ptr<Store>& store) {
  const int world_size = static_cast<int>(contexts.size());
  std::vector<std::future<std::unique_ptr<Transport>>> joining;
  for (int rank = 0; rank < world_size; ++rank) {
    joining.push_back(std::async(std::launch::async, [&, rank] {
      return ucx::create(contexts[static_cast<std::size_t>(rank)], store, Rank(rank), world_size,
                         std::chrono::seconds(60));
    }));
  }
  std::vector<std::unique_ptr<Transport>> transports;
  for (auto& each : joining) transports.push_back(each.get());
  return transports;
}

}  // namespace ucxring::testing
