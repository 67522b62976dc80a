// A barrier that says who does not come, and leaves the group alone when somebody does not.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/store.hpp"

namespace ucxring {

/// torch's monitored barrier, through the store: no operation of the group is in its way, nor does one fail
/// with it. Rank 0 waits for each rank and then tells all of them the verdict. The n-th call of a rank meets
/// the n-th of the others. Thread-safe.
class MonitoredBarrier {
 public:
  /// Of a group whose ranks all see `store` and have the same keys there. A store that was used by an earlier
  /// group with the same keys may be used again.
  MonitoredBarrier(std::shared_ptr<Store> store, int rank, int world_size);

  /// Returns when every rank has called it. Throws torch's DistBackendError: on rank 0 naming the first rank
  /// that has not come within `timeout`, or with `wait_all_ranks` all of them; on the others repeating that.
  void wait(std::chrono::milliseconds timeout, bool wait_all_ranks);

 private:
  void collect(std::int64_t round, std::chrono::milliseconds timeout, bool wait_all_ranks);
  void report(std::int64_t round, std::chrono::milliseconds timeout);
  [[nodiscard]] std::string arrival_key(std::int64_t round, int rank) const;
  [[nodiscard]] std::string verdict_key(std::int64_t round) const;

  std::shared_ptr<Store> store_;
  int rank_;
  int world_size_;
  std::int64_t generation_;
  std::mutex mutex_;
  std::int64_t rounds_ = 0;
};

}  // namespace ucxring
