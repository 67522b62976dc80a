// A group over shared memory whose ranks are driven by one thread.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "transport/shm/shm.hpp"
#include "transport/store.hpp"

namespace ucxring::bench {

/// All ranks of a group, each on a context of its own.
inline std::vector<std::unique_ptr<Transport>> make_shm_group(int world_size) {
  const auto store = make_memory_store();
  std::vector<std::future<std::unique_ptr<Transport>>> joining;
  for (int rank = 0; rank < world_size; ++rank) {
    joining.push_back(std::async(std::launch::async, [&store, rank, world_size] {
      return shm::join(shm::make_context(), store, Rank(rank), world_size, std::chrono::seconds(60), Config{})
          .transport;
    }));
  }
  std::vector<std::unique_ptr<Transport>> ranks;
  for (auto& each : joining) ranks.push_back(each.get());
  return ranks;
}

}  // namespace ucxring::bench
