// The works of one group that are not finished: they keep tensors alive when the user drops the handle.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "collectives/communicator.hpp"

namespace ucxring {

class WorkUcxring;

/// Thread-safe. Never holds its lock while a work finishes or a tensor is dropped.
class PendingWorks {
 public:
  PendingWorks();
  ~PendingWorks();
  PendingWorks(const PendingWorks&) = delete;
  PendingWorks& operator=(const PendingWorks&) = delete;

  void add(c10::intrusive_ptr<WorkUcxring> work);
  void remove(std::uint64_t id);

  /// Finishes the oldest works as long as their operations are done, and sends and receives that are.
  void finish_done();
  /// As `finish_done`, for works made before number `id`, whether or not older ones are done.
  void finish_before(std::uint64_t id);
  /// The operations of all works here but sends and receives, oldest first.
  [[nodiscard]] std::vector<Operation> operations() const;

 private:
  [[nodiscard]] c10::intrusive_ptr<WorkUcxring> take_done();

  mutable std::mutex mutex_;
  std::map<std::uint64_t, c10::intrusive_ptr<WorkUcxring>> works_;  // by id
};

}  // namespace ucxring
