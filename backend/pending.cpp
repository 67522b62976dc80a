#include "backend/pending.hpp"

#include <algorithm>
#include <utility>

#include "backend/work.hpp"

namespace ucxring {

PendingWorks::PendingWorks() = default;
PendingWorks::~PendingWorks() = default;

PendingWorks::Works& PendingWorks::home(const WorkUcxring& work) {
  return work.request().point_to_point ? messages_ : collectives_;
}

void PendingWorks::add(c10::intrusive_ptr<WorkUcxring> work) {
  const std::uint64_t id = work->id();
  const std::lock_guard lock(mutex_);
  home(*work).emplace(id, std::move(work));
}

void PendingWorks::remove(std::uint64_t id) {
  Works::node_type removed;
  const std::lock_guard lock(mutex_);
  removed = collectives_.extract(id);
  if (removed.empty()) removed = messages_.extract(id);
}

void PendingWorks::finish_done() {
  constexpr std::size_t kLooks = 4;
  finish(kLooks);
}

void PendingWorks::finish_all_done() {
  const auto messages = [&] {
    const std::lock_guard lock(mutex_);
    return messages_.size();
  };
  finish(messages());
}

/// `looks` is how many sends and receives in flight may be looked at.
void PendingWorks::finish(std::size_t looks) {
  while (const auto work = take_done_collective()) work->settle();
  while (const auto work = take_done_message(looks)) work->settle();
}

/// The oldest collective if it is done, else null.
c10::intrusive_ptr<WorkUcxring> PendingWorks::take_done_collective() {
  const std::lock_guard lock(mutex_);
  const auto oldest = collectives_.begin();
  if (oldest == collectives_.end() || !oldest->second->ready()) return nullptr;
  return std::move(collectives_.extract(oldest).mapped());
}

/// The next send or receive that is done, null when `looks` others were not. Counts `looks` down.
c10::intrusive_ptr<WorkUcxring> PendingWorks::take_done_message(std::size_t& looks) {
  const std::lock_guard lock(mutex_);
  looks = std::min(looks, messages_.size());
  for (auto at = messages_.upper_bound(looked_at_); looks > 0; ++at) {
    if (at == messages_.end()) at = messages_.begin();
    looked_at_ = at->first;
    if (at->second->ready()) return std::move(messages_.extract(at).mapped());
    --looks;
  }
  return nullptr;
}

void PendingWorks::finish_before(std::uint64_t id) {
  std::vector<c10::intrusive_ptr<WorkUcxring>> older;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, work] : collectives_) {
      if (number < id && work->ready()) older.push_back(work);
    }
  }
  for (const auto& work : older) work->settle();
}

std::vector<Operation> PendingWorks::operations() const {
  std::vector<Operation> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, work] : collectives_) {
    all.insert(all.end(), work->operations().begin(), work->operations().end());
  }
  return all;
}

}  // namespace ucxring
