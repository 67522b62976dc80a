// Figures from every rank to every rank, by another way than the library under test.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/store.hpp"
#include "transport/types.hpp"

namespace ucxring::perf {

/// One rank's side. Not thread-safe; all ranks make the same calls in the same order.
class Exchange {
 public:
  /// `limit`: how long to wait for the others, each time.
  Exchange(std::shared_ptr<Store> store, Rank rank, int world_size, std::chrono::milliseconds limit);

  /// The figures of all ranks, by rank; all ranks give equally many. Sleeps while it waits. Throws `Error`
  /// (timeout).
  [[nodiscard]] std::vector<std::vector<double>> gather(const std::vector<double>& own);
  /// The largest of all ranks' figures.
  [[nodiscard]] double largest(double own);

 private:
  std::shared_ptr<Store> store_;
  Rank rank_;
  int world_size_;
  std::chrono::milliseconds limit_;
  std::uint64_t round_ = 0;
};

}  // namespace ucxring::perf
