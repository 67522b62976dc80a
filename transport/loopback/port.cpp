#include "transport/loopback/port.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace ucxring::loopback {

Port::Port() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) {
    throw Error(ErrorCode::transport, "loopback: no eventfd: " + std::generic_category().message(errno));
  }
}

void Port::push(Message message) {
  const std::lock_guard lock(mutex_);
  inbox_.push_back(std::move(message));
  filled_.store(true, std::memory_order_release);
  if (std::exchange(armed_, false)) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written =
        ::write(event_.get(), &one, sizeof one);  // fails only when already readable
  }
}

bool Port::take(std::vector<Message>& batch) {
  if (!filled_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  inbox_.swap(batch);
  filled_.store(false, std::memory_order_relaxed);
  return !batch.empty();
}

bool Port::arm() {
  const std::lock_guard lock(mutex_);
  if (!inbox_.empty()) return false;
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read =
      ::read(event_.get(), &count, sizeof count);  // fails only when already clear
  armed_ = true;
  return true;
}

}  // namespace ucxring::loopback
