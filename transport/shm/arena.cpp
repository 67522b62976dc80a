#include "transport/shm/arena.hpp"

#include <algorithm>

namespace ucxring::shm {

void Arena::mark(const std::uint64_t* tails) noexcept {
  if (head_ == marked_) return;
  if (count_ < marks_.size()) ++count_;  // else the newest mark moves on
  Mark& newest = marks_[(oldest_ + count_ - 1) % marks_.size()];
  newest.head = marked_ = head_;
  std::copy_n(tails, newest.tails.size(), newest.tails.begin());
}

bool Arena::release(const std::uint64_t* acks) noexcept {
  bool released = false;
  while (count_ > 0) {
    const Mark& oldest = marks_[oldest_];
    const bool passed = std::equal(oldest.tails.begin(), oldest.tails.end(), acks,
                                   [](std::uint64_t tail, std::uint64_t ack) { return tail <= ack; });
    if (!passed) break;
    limit_ = oldest.head + bytes_;
    oldest_ = (oldest_ + 1) % marks_.size();
    --count_;
    released = true;
  }
  return released;
}

}  // namespace ucxring::shm
