#include "backend/pending.hpp"

#include <utility>

#include "backend/work.hpp"

namespace ucxring {

PendingWorks::PendingWorks() = default;
PendingWorks::~PendingWorks() = default;

void PendingWorks::add(c10::intrusive_ptr<WorkUcxring> work) {
  const std::uint64_t id = work->id();
  const std::lock_guard lock(mutex_);
  works_.emplace(id, std::move(work));
}

void PendingWorks::remove(std::uint64_t id) {
  decltype(works_)::node_type removed;
  const std::lock_guard lock(mutex_);
  removed = works_.extract(id);
}

void PendingWorks::finish_done() {
  while (const auto work = take_done()) work->settle();
}

/// The oldest work that is done with no collective in flight before it; null when there is none.
c10::intrusive_ptr<WorkUcxring> PendingWorks::take_done() {
  const std::lock_guard lock(mutex_);
  for (auto at = works_.begin(); at != works_.end(); ++at) {
    if (at->second->ready()) return std::move(works_.extract(at).mapped());
    if (!at->second->request().point_to_point) return nullptr;
  }
  return nullptr;
}

void PendingWorks::finish_before(std::uint64_t id) {
  std::vector<c10::intrusive_ptr<WorkUcxring>> older;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, work] : works_) {
      if (number < id && !work->request().point_to_point && work->ready()) older.push_back(work);
    }
  }
  for (const auto& work : older) work->settle();
}

std::vector<Operation> PendingWorks::operations() const {
  std::vector<Operation> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, work] : works_) {
    if (work->request().point_to_point) continue;
    all.insert(all.end(), work->operations().begin(), work->operations().end());
  }
  return all;
}

}  // namespace ucxring
