// Works that are started together, to be waited for as one.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace ucxring {

class WorkUcxring;

/// Collects the works that each thread starts between `start` and `end`. Thread-safe.
class Coalescing {
 public:
  Coalescing();
  ~Coalescing();
  Coalescing(const Coalescing&) = delete;
  Coalescing& operator=(const Coalescing&) = delete;

  /// From now on the calling thread's works belong together. What a `start` without an `end` has left, since
  /// an operation between them threw, is forgotten.
  void start();
  /// Adds a work of this thread when it is between `start` and `end`.
  void add(const c10::intrusive_ptr<WorkUcxring>& work);
  /// This thread's works in their order; none without a `start`.
  [[nodiscard]] std::vector<c10::intrusive_ptr<WorkUcxring>> end();

 private:
  std::mutex mutex_;
  std::map<std::thread::id, std::vector<c10::intrusive_ptr<WorkUcxring>>> works_;
  std::atomic<std::size_t> threads_{0};  // in works_
};

}  // namespace ucxring
