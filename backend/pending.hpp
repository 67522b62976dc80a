// The works of one group that are not finished: they keep tensors alive when the user drops the handle.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstddef>
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

  /// Finishes the oldest collectives as long as their operations are done, and sends and receives that are.
  /// Of those in flight each call looks at a few, in turn, so that it costs the same however many there are.
  void finish_done();
  /// As `finish_done`, but looks at every send and receive.
  void finish_all_done();
  /// As `finish_done`, for works made before number `id`, whether or not older ones are done.
  void finish_before(std::uint64_t id);
  /// The operations of all works here but sends and receives, oldest first.
  [[nodiscard]] std::vector<Operation> operations() const;

 private:
  using Works = std::map<std::uint64_t, c10::intrusive_ptr<WorkUcxring>>;  // by id

  [[nodiscard]] Works& home(const WorkUcxring& work);
  [[nodiscard]] c10::intrusive_ptr<WorkUcxring> take_done_collective();
  [[nodiscard]] c10::intrusive_ptr<WorkUcxring> take_done_message(std::size_t& looks);
  void finish(std::size_t looks);

  mutable std::mutex mutex_;
  Works collectives_;
  Works messages_;               // sends and receives, which end in any order
  std::uint64_t looked_at_ = 0;  // the newest id in the current round over `messages_`
};

}  // namespace ucxring
