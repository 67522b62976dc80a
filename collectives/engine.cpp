#include "collectives/engine.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace ucxring {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr auto kInterruptPeriod = milliseconds(50);
constexpr nanoseconds kShortestSpin{2000};
/// With a pause of some 20 ns each.
constexpr std::int64_t kLooksPerMicrosecond = 40;
/// How long a waiter offers its core to others before it sleeps, where a host's ranks are waited for: to be
/// woken costs more. It adapts, too.
constexpr nanoseconds kShortestYield = milliseconds(1);
constexpr nanoseconds kLongestYield = milliseconds(16);

std::atomic<Engine::InterruptCheck> interrupt_check{nullptr};

void check_interrupts() {
  if (const auto check = interrupt_check.load(std::memory_order_relaxed)) check();
}

Time time_of(const Context* clock) { return clock ? clock->now() : std::chrono::steady_clock::now(); }

Descriptor make_event() {
  Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw Error(ErrorCode::transport, "eventfd failed: too many open files? raise `ulimit -n`");
  return event;
}

/// Marks a thread as the driver and takes the mark away, also when an interrupt check throws.
class DrivingMark {
 public:
  explicit DrivingMark(std::atomic<bool>& driving) noexcept : driving_(driving) {}
  ~DrivingMark() { driving_.store(false); }
  DrivingMark(const DrivingMark&) = delete;
  DrivingMark& operator=(const DrivingMark&) = delete;

 private:
  std::atomic<bool>& driving_;
};

}  // namespace

Engine::Baton::Baton(Engine& engine) : lock_(engine.baton_, std::try_to_lock) {
  if (lock_.owns_lock()) return;
  engine.contenders_.fetch_add(1);
  lock_.lock();
  engine.contenders_.fetch_sub(1);
}

Engine::Engine(Options options)
    : options_(options),
      looks_(static_cast<int>(options.spin.count() * kLooksPerMicrosecond)),
      driver_bed_{make_event(), false},
      background_bed_{make_event(), false},
      spin_ns_(nanoseconds(options.spin).count()),
      yield_ns_(kLongestYield.count()) {
  if (options_.background) background_ = std::thread([this] { run_background(); });
}

Engine::~Engine() { stop_background(); }

Engine& Engine::process(Options options) {
  static PerProcess<Engine> engines;
  // Its thread ends before libraries are unloaded.
  static const int registered = std::atexit([] {
    if (Engine* const engine = engines.find()) engine->stop_background();
  });
  static_cast<void>(registered);
  return engines.get([&] { return std::make_unique<Engine>(options); });
}

void Engine::set_interrupt_check(InterruptCheck check) noexcept { interrupt_check.store(check); }

void Engine::attach(Driven& driven, std::shared_ptr<Context> context) {
  {
    const Baton baton(*this);
    attached_.push_back({&driven, context.get()});
    const auto known = std::find_if(contexts_.begin(), contexts_.end(),
                                    [&](const Polled& polled) { return polled.context == context; });
    if (known != contexts_.end()) {
      ++known->groups;
    } else {
      contexts_.push_back({std::move(context), 1});
    }
  }
  kick();
}

void Engine::detach(Driven& driven) {
  std::shared_ptr<Context> released;  // destroyed after the baton
  const Baton baton(*this);
  const auto entry = std::find_if(attached_.begin(), attached_.end(),
                                  [&](const Attached& attached) { return attached.driven == &driven; });
  if (entry == attached_.end()) return;
  const auto polled = std::find_if(contexts_.begin(), contexts_.end(), [&](const Polled& known) {
    return known.context.get() == entry->context;
  });
  if (--polled->groups == 0) {
    released = std::move(polled->context);
    contexts_.erase(polled);
  }
  attached_.erase(entry);
}

bool Engine::drive_once() {
  bool moved = false;
  Time now{};
  for (std::size_t i = 0; i < contexts_.size(); ++i) moved |= contexts_[i].context->progress();
  for (std::size_t i = 0; i < attached_.size(); ++i) {
    if (i == 0 || attached_[i].context != attached_[i - 1].context) now = attached_[i].context->now();
    moved |= attached_[i].driven->advance(now);
  }
  return moved;
}

bool Engine::arm_all() {
  return std::all_of(contexts_.begin(), contexts_.end(),
                     [](Polled& polled) { return polled.context->arm(); });
}

Time Engine::earliest_deadline() {
  Time earliest = Time::max();
  for (const auto& attached : attached_) earliest = std::min(earliest, attached.driven->next_deadline());
  return earliest;
}

bool Engine::poll() {
  const Baton baton(*this);
  return drive_once();
}

bool Engine::any_busy() const {
  return std::any_of(attached_.begin(), attached_.end(),
                     [](const Attached& attached) { return attached.driven->busy(); });
}

bool Engine::busy() {
  const Baton baton(*this);
  return any_busy();
}

void Engine::stir() noexcept {
  if (driver_bed_.occupied.load()) driver_bed_.wake();
  if (background_bed_.occupied.load()) background_bed_.wake();
}

bool Engine::skip_virtual_time(Time until) {
  const Baton baton(*this);
  const Time target = std::min(until, earliest_deadline());
  bool skipped = false;
  for (auto& polled : contexts_) skipped |= polled.context->skip_to(target);
  return skipped;
}

void Engine::Bed::wake() noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event.get(), &one, sizeof one));
}

/// Sleeps until a context has news, the bed is woken, a deadline of a group passes, or `until`.
void Engine::sleep(Bed& bed, Time until) {
  thread_local std::vector<pollfd> descriptors;
  descriptors.assign(1, {bed.event.get(), POLLIN, 0});
  {
    const Baton baton(*this);
    if (!arm_all()) return;
    for (const auto& polled : contexts_) {
      if (polled.context->event_fd() >= 0) descriptors.push_back({polled.context->event_fd(), POLLIN, 0});
    }
    until = std::min(until, earliest_deadline());
  }
  timespec timeout{};
  const bool forever = until == Time::max();
  if (!forever) {
    const auto left = std::max(nanoseconds(0), nanoseconds(until - std::chrono::steady_clock::now()));
    timeout.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
    timeout.tv_nsec = (left % std::chrono::seconds(1)).count();
  }
  ::ppoll(descriptors.data(), descriptors.size(), forever ? nullptr : &timeout, nullptr);
  if ((descriptors.front().revents & POLLIN) != 0) {
    std::uint64_t count = 0;
    static_cast<void>(!::read(bed.event.get(), &count, sizeof count));
  }
}

/// What would have come within the longest spin was worth spinning for; anything else was not. The same for
/// yielding.
void Engine::adapt(Duration slept) noexcept {
  const auto adapted = [slept](std::int64_t now, nanoseconds shortest, nanoseconds longest) {
    const bool worth = slept < longest;
    return std::clamp(worth ? now * 2 : now / 2, std::min(shortest, longest).count(), longest.count());
  };
  const nanoseconds longest_spin(options_.spin);
  spin_ns_.store(adapted(spin_ns_.load(std::memory_order_relaxed), kShortestSpin, longest_spin),
                 std::memory_order_relaxed);
  yield_ns_.store(adapted(yield_ns_.load(std::memory_order_relaxed), kShortestYield, kLongestYield),
                  std::memory_order_relaxed);
}

bool Engine::wait(const std::atomic<bool>& done, Time until, const Context* clock) {
  if (done.load(std::memory_order_acquire)) return true;
  drives_.fetch_add(1, std::memory_order_relaxed);
  bool slept = false;
  while (!done.load(std::memory_order_acquire)) {
    if (time_of(clock) >= until) return false;
    if (driving_.exchange(true)) {
      sleep_while_driven(done, until, clock);
      slept = true;
    } else {
      {
        const DrivingMark mark(driving_);
        drive(done, until, clock);
      }
      if (sleepers_.load() > 0) {
        wake_sleepers();  // one of them becomes the next driver
      } else if (busy()) {
        kick();
      }
    }
    check_interrupts();
  }
  // The driver may have left what is still in flight to this thread.
  if (slept && !driving_.load() && busy()) kick();
  return true;
}

/// Drives until `done`, `until`, or an interrupt check is due.
void Engine::drive(const std::atomic<bool>& done, Time until, const Context* clock) {
  auto now = std::chrono::steady_clock::now();
  const auto check_at = now + kInterruptPeriod;
  auto quiet_since = now;
  while (now < check_at && (clock ? clock->now() : now) < until) {
    const bool moved = poll();
    if (sleepers_.load() > 0) wake_sleepers();
    if (done.load(std::memory_order_acquire)) return;
    if (contenders_.load(std::memory_order_relaxed) > 0) ::sched_yield();
    now = std::chrono::steady_clock::now();
    if (moved) quiet_since = now;
    if (!moved && clock != nullptr && skip_virtual_time(until)) continue;
    const bool shared = cores_are_shared_.load(std::memory_order_relaxed);
    const std::int64_t spin = shared ? 0 : spin_ns_.load(std::memory_order_relaxed);
    if (now - quiet_since < nanoseconds(spin)) continue;
    if (yields_.load(std::memory_order_relaxed) &&
        now - quiet_since < nanoseconds(yield_ns_.load(std::memory_order_relaxed))) {
      ::sched_yield();
      continue;
    }
    driver_bed_.occupied.store(true);
    sleep(driver_bed_, clock ? check_at : std::min(check_at, until));
    driver_bed_.occupied.store(false);
    const auto slept_from = std::exchange(now, std::chrono::steady_clock::now());
    adapt(now - slept_from);
    quiet_since = now;
  }
}

void Engine::sleep_while_driven(const std::atomic<bool>& done, Time until, const Context* clock) {
  std::unique_lock lock(sleep_mutex_);
  sleepers_.fetch_add(1);
  const auto limit = std::chrono::steady_clock::now() + kInterruptPeriod;
  sleep_changed_.wait_until(lock, clock ? limit : std::min(limit, until),
                            [&] { return done.load() || !driving_.load(); });
  sleepers_.fetch_sub(1);
}

void Engine::wake_sleepers() {
  if (sleepers_.load() == 0) return;
  { const std::lock_guard lock(sleep_mutex_); }  // a sleeper between its check and its wait is not missed
  sleep_changed_.notify_all();
}

}  // namespace ucxring
