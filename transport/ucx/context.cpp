#include "transport/ucx/context.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ucxring::ucx {
namespace {

/// Idle groups are looked at once in so many polls while others are busy: polling a TCP worker is a system
/// call.
constexpr unsigned kIdlePollInterval = 64;

Descriptor make_epoll() {
  Descriptor descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!descriptor) throw Error(ErrorCode::transport, fmt::format("epoll_create1: {}", std::strerror(errno)));
  return descriptor;
}

}  // namespace

UcxContext::UcxContext(const Config& config, const std::string& master_host, const IsSet& is_set)
    : context_(make_ucp_context(config, master_host, is_set)),
      protocol_(choose_protocol(config)),
      events_(make_epoll()) {}

bool UcxContext::progress() {
  if (has_newcomers_.load(std::memory_order_acquire)) admit_newcomers();
  const bool all = poll_all_ || groups_.size() == 1 || ++turn_ % kIdlePollInterval == 0;
  poll_all_ = false;
  bool moved = false;
  for (Polled* group : groups_) {
    if (all || group->busy()) moved |= group->progress();
  }
  return moved;
}

bool UcxContext::arm() {
  if (has_newcomers_.load(std::memory_order_acquire)) admit_newcomers();
  for (Polled* group : groups_) {
    if (!group->arm()) {
      poll_all_ = true;
      return false;
    }
  }
  // Whoever is woken must look at all: the event may be an idle group's.
  poll_all_ = true;
  return true;
}

void UcxContext::add(Polled& group) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, group.event_fd(), &event) != 0) {
    throw Error(ErrorCode::transport, fmt::format("epoll_ctl: {}", std::strerror(errno)));
  }
  const std::lock_guard lock(mutex_);
  newcomers_.push_back(&group);
  has_newcomers_.store(true, std::memory_order_release);
}

void UcxContext::remove(Polled& group) noexcept {
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, group.event_fd(), nullptr);
  std::erase(groups_, &group);
  const std::lock_guard lock(mutex_);
  std::erase(newcomers_, &group);
}

void UcxContext::admit_newcomers() {
  const std::lock_guard lock(mutex_);
  groups_.insert(groups_.end(), newcomers_.begin(), newcomers_.end());
  newcomers_.clear();
  has_newcomers_.store(false, std::memory_order_relaxed);
}

}  // namespace ucxring::ucx
