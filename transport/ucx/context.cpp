#include "transport/ucx/context.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "transport/ucx/advice.hpp"

namespace ucxring::ucx {
namespace {

/// Idle groups are looked at once in so many polls while others are busy: polling a TCP worker is a system
/// call.
constexpr unsigned kIdlePollInterval = 64;

/// How long a retired group is polled on, and how long the context waits for such groups when it ends itself.
constexpr auto kFarewell = std::chrono::seconds(2);
constexpr auto kLastFarewell = std::chrono::milliseconds(500);
/// Between two polls of the latter: a peer may need this core to leave, too.
constexpr auto kPause = std::chrono::microseconds(500);

Descriptor make_epoll() {
  Descriptor descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!descriptor) throw Error(ErrorCode::transport, fmt::format("epoll_create1: {}", std::strerror(errno)));
  return descriptor;
}

}  // namespace

UcxContext::UcxContext(const Config& config, const std::string& master_host, const IsSet& is_set)
    : context_(make_ucp_context(config, master_host, is_set)),
      protocol_(choose_protocol(config)),
      choice_(describe_choice(config, master_host, is_set)),
      port_range_(describe_port_range(config, is_set)),
      events_(make_epoll()) {}

UcxContext::~UcxContext() {
  const Deadline deadline = Deadline::after(kLastFarewell);
  while (retired_ > 0 && !deadline.passed()) {
    if (!progress()) std::this_thread::sleep_for(kPause);
  }
  close_retired(true);
}

bool UcxContext::progress() {
  if (has_newcomers_.load(std::memory_order_acquire)) admit_newcomers();
  const bool all = poll_all_ || groups_.size() == 1 || ++turn_ % kIdlePollInterval == 0;
  poll_all_ = false;
  bool moved = false;
  for (const Entry& entry : groups_) {
    if (all || entry.is_retired || entry.group->busy()) moved |= entry.group->progress();
  }
  if (retired_ > 0) close_retired(false);
  return moved;
}

bool UcxContext::arm() {
  if (has_newcomers_.load(std::memory_order_acquire)) admit_newcomers();
  // Whoever is woken, or finds that it may not sleep, must look at all: the event may be an idle group's.
  poll_all_ = true;
  return std::all_of(groups_.begin(), groups_.end(), [](const Entry& entry) { return entry.group->arm(); });
}

void UcxContext::add(std::shared_ptr<Polled> group) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, group->event_fd(), &event) != 0) {
    throw Error(ErrorCode::transport, fmt::format("epoll_ctl: {}", std::strerror(errno)));
  }
  const std::lock_guard lock(mutex_);
  newcomers_.push_back(std::move(group));
  has_newcomers_.store(true, std::memory_order_release);
}

void UcxContext::retire(Polled& group) noexcept {
  admit_newcomers();
  for (Entry& entry : groups_) {
    if (entry.group.get() != &group || entry.is_retired) continue;
    entry.is_retired = true;
    entry.retired = Deadline::after(kFarewell);
    ++retired_;
  }
  close_retired(false);
}

void UcxContext::close_retired(bool all) noexcept {
  std::erase_if(groups_, [&](const Entry& entry) {
    if (!entry.is_retired) return false;
    if (!all && !entry.group->farewells_sent() && !entry.retired.passed()) return false;
    epoll_ctl(events_.get(), EPOLL_CTL_DEL, entry.group->event_fd(), nullptr);
    entry.group->close();
    --retired_;
    return true;
  });
}

void UcxContext::admit_newcomers() {
  const std::lock_guard lock(mutex_);
  for (auto& group : newcomers_) groups_.push_back({std::move(group), Deadline(), false});
  newcomers_.clear();
  has_newcomers_.store(false, std::memory_order_relaxed);
}

}  // namespace ucxring::ucx
