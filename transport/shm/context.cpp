#include "transport/shm/context.hpp"

#include <linux/membarrier.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "transport/shm/pool.hpp"
#include "transport/shm/transport.hpp"

namespace ucxring::shm {
namespace {

/// Busy polls between looks at whether a peer has died: some hundred microseconds.
constexpr unsigned kPollsPerCheck = 4096;

Descriptor checked(int descriptor, const char* what) {
  if (descriptor >= 0) return Descriptor(descriptor);
  throw Error(ErrorCode::transport, std::string(what) + " failed: too many open files? raise `ulimit -n`");
}

/// Orders what every thread of every registered process has stored before with what this thread loads next.
void fence_everywhere() noexcept {
  static std::atomic<std::uint32_t> anything{0};
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  anything.fetch_add(1, std::memory_order_seq_cst);  // a fence of its own, for peers without membarrier
}

}  // namespace

ShmContext::ShmContext()
    : doorbell_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {
  here_.token = random_token();
  here_.doorbell = doorbell_.get();
  here_.pool = Pool::process().fd();
  here_.pool_bytes = Pool::process().bytes();
  epoll_event event{EPOLLIN, {.ptr = nullptr}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, doorbell_.get(), &event) != 0) {
    throw Error(ErrorCode::transport, "epoll_ctl failed on the doorbell");
  }
}

void ShmContext::add(ShmTransport& member) {
  const std::lock_guard lock(mutex_);
  member.set_sleeping(armed_);
  members_.push_back(&member);
  for (const auto& peer : member.neighbours().peers) {
    if (!peer) continue;
    watch(peer->neighbour);
    if (peer->neighbour->dead()) member.bury(*peer->neighbour);  // its death may have been seen before
  }
}

void ShmContext::remove(ShmTransport& member) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(members_, &member);
  for (const auto& peer : member.neighbours().peers) {
    if (peer) unwatch(*peer->neighbour);
  }
}

void ShmContext::watch(const std::shared_ptr<Neighbour>& neighbour) {
  Watched& watched = watched_[neighbour.get()];
  if (watched.groups++ > 0 || neighbour->death_fd() < 0) return;
  watched.neighbour = neighbour;
  epoll_event event{EPOLLIN, {.ptr = neighbour.get()}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, neighbour->death_fd(), &event);
}

void ShmContext::unwatch(Neighbour& neighbour) noexcept {
  const auto found = watched_.find(&neighbour);
  if (found == watched_.end() || --found->second.groups > 0) return;
  if (neighbour.death_fd() >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, neighbour.death_fd(), nullptr);
  watched_.erase(found);
}

bool ShmContext::stay_awake() noexcept {
  if (!armed_) return false;
  const std::lock_guard lock(mutex_);
  disarm();
  return true;
}

bool ShmContext::progress() {
  const std::lock_guard lock(mutex_);
  bool moved = false;
  if (armed_) {
    disarm();
    drain_doorbell();
    moved = check_deaths();
  } else if (++polls_ % kPollsPerCheck == 0) {
    moved = check_deaths();
  }
  for (std::size_t i = 0; i < members_.size(); ++i) moved |= members_[i]->poll();
  return moved;
}

bool ShmContext::arm() {
  const std::lock_guard lock(mutex_);
  drain_doorbell();
  armed_ = true;
  for (ShmTransport* member : members_) member->set_sleeping(true);
  fence_everywhere();
  const bool news =
      std::any_of(members_.begin(), members_.end(), [](ShmTransport* member) { return member->has_news(); });
  if (news) disarm();
  return !news;
}

void ShmContext::disarm() noexcept {
  armed_ = false;
  for (ShmTransport* member : members_) member->set_sleeping(false);
}

void ShmContext::drain_doorbell() noexcept {
  std::uint64_t count = 0;
  static_cast<void>(!::read(doorbell_.get(), &count, sizeof count));  // fails only when already clear
}

bool ShmContext::check_deaths() {
  std::array<epoll_event, 16> events{};
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool died = false;
  for (int i = 0; i < ready; ++i) {
    auto* const neighbour = static_cast<Neighbour*>(events[static_cast<std::size_t>(i)].data.ptr);
    if (neighbour == nullptr || !neighbour->dead()) continue;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, neighbour->death_fd(), nullptr);
    for (std::size_t m = 0; m < members_.size(); ++m) members_[m]->bury(*neighbour);
    died = true;
  }
  return died;
}

}  // namespace ucxring::shm
