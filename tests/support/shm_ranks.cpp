#include "tests/support/shm_ranks.hpp"

#include <future>

#include "transport/shm/shm.hpp"
#include "transport/store.hpp"

namespace ucxring::testing {

std::vector<std::unique_ptr<Transport>> make_shm_ranks(int world_size) {
  const auto store = make_memory_store();
  std::vector<std::future<std::unique_ptr<Transport>>> joining;
  for (int rank = 0; rank < world_size; ++rank) {
    joining.push_back(std::async(std::launch::async, [&, rank] {
      return shm::join(shm::make_context(), store, Rank(rank), world_size, std::chrono::seconds(60), Config{})
          .transport;
    }));
  }
  std::vector<std::unique_ptr<Transport>> transports;
  for (auto& each : joining) transports.push_back(each.get());
  return transports;
}

}  // namespace ucxring::testing
