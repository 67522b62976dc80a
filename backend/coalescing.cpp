#include "backend/coalescing.hpp"

#include <utility>

#include "backend/work.hpp"

namespace ucxring {

Coalescing::Coalescing() = default;
Coalescing::~Coalescing() = default;

void Coalescing::start() {
  std::vector<c10::intrusive_ptr<WorkUcxring>> forgotten;  // ends after the lock
  const std::lock_guard lock(mutex_);
  forgotten = std::exchange(works_[std::this_thread::get_id()], {});
  threads_.store(works_.size());
}

void Coalescing::add(const c10::intrusive_ptr<WorkUcxring>& work) {
  if (threads_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  const auto mine = works_.find(std::this_thread::get_id());
  if (mine != works_.end()) mine->second.push_back(work);
}

std::vector<c10::intrusive_ptr<WorkUcxring>> Coalescing::end() {
  const std::lock_guard lock(mutex_);
  auto mine = works_.extract(std::this_thread::get_id());
  threads_.store(works_.size());
  return mine ? std::move(mine.mapped()) : std::vector<c10::intrusive_ptr<WorkUcxring>>{};
}

}  // namespace ucxring
