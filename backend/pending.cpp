#include "backend/pending.hpp"

#include <utility>

#include "backend/work.hpp"

namespace ucxring {

PendingWorks::PendingWorks() = default;
PendingWorks::~PendingWorks() = default;

void PendingWorks::add(c10::intrusive_ptr<WorkUcxring> work) {
  const std::uint64_t sequence = work->getSequencenumber();
  const std::lock_guard lock(mutex_);
  works_.emplace(sequence, std::move(work));
}

void PendingWorks::remove(std::uint64_t sequence) {
  decltype(works_)::node_type removed;
  const std::lock_guard lock(mutex_);
  removed = works_.extract(sequence);
}

void PendingWorks::finish_done() {
  while (true) {
    c10::intrusive_ptr<WorkUcxring> oldest;
    {
      const std::lock_guard lock(mutex_);
      if (works_.empty() || !works_.begin()->second->ready()) return;
      oldest = std::move(works_.extract(works_.begin()).mapped());
    }
    oldest->settle();
  }
}

void PendingWorks::finish_before(std::uint64_t sequence) {
  std::vector<c10::intrusive_ptr<WorkUcxring>> older;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, work] : works_) {
      if (number < sequence && work->ready()) older.push_back(work);
    }
  }
  for (const auto& work : older) work->settle();
}

std::vector<Operation> PendingWorks::operations() const {
  std::vector<Operation> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, work] : works_) {
    all.insert(all.end(), work->operations().begin(), work->operations().end());
  }
  return all;
}

}  // namespace ucxring
