#include "transport/mixed/context.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "transport/base/process.hpp"

namespace ucxring::mixed {
namespace {

/// After so many polls of far in which nothing moved (about the time of a message over TCP) …
constexpr unsigned kQuiet = 64;
/// … it is polled once in so many polls of near, which cost some nanoseconds each.
constexpr unsigned kInterval = 32;

void watch(const Descriptor& events, int descriptor) {
  if (descriptor < 0) {
    throw Error(ErrorCode::invalid_argument, "mixed: virtual time cannot be mixed with anything");
  }
  epoll_event event{};
  event.events = EPOLLIN;
  if (!events || ::epoll_ctl(events.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    throw Error(ErrorCode::transport, "mixed: no epoll: " + std::generic_category().message(errno));
  }
}

}  // namespace

MixedContext::MixedContext(std::shared_ptr<Context> near, std::shared_ptr<Context> far)
    : near_(std::move(near)), far_(std::move(far)), events_(::epoll_create1(EPOLL_CLOEXEC)) {
  watch(events_, near_->event_fd());
  watch(events_, far_->event_fd());
}

bool MixedContext::progress() {
  const bool near_moved = near_->progress();
  if (quiet_polls_ == kQuiet && ++skipped_ < kInterval) return near_moved;
  skipped_ = 0;
  const bool far_moved = far_->progress();
  quiet_polls_ = far_moved ? 0 : std::min(quiet_polls_ + 1, kQuiet);
  return near_moved || far_moved;
}

bool MixedContext::arm() {
  quiet_polls_ = 0;
  return near_->arm() && far_->arm();
}

std::shared_ptr<Context> context_over(const std::shared_ptr<Context>& near,
                                      const std::shared_ptr<Context>& far) {
  struct Known {
    std::weak_ptr<Context> near, far, mixed;
  };
  struct Shared {
    std::mutex mutex;
    std::vector<Known> all;
  };
  static PerProcess<Shared> of_process;
  Shared& shared = of_process.get();
  const std::lock_guard lock(shared.mutex);
  std::vector<Known>& all = shared.all;
  std::erase_if(all, [](const Known& known) { return known.mixed.expired(); });
  for (const Known& known : all) {
    auto mixed = known.mixed.lock();
    if (mixed && known.near.lock() == near && known.far.lock() == far) return mixed;
  }
  auto mixed = std::make_shared<MixedContext>(near, far);
  all.push_back({near, far, mixed});
  return mixed;
}

}  // namespace ucxring::mixed
