// The engine's background thread: progress of operations that nobody waits for.
#include <sched.h>

#include <algorithm>
#include <utility>

#include "collectives/engine.hpp"

namespace ucxring {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto kShortNap = milliseconds(1);
constexpr auto kLongNap = milliseconds(16);
/// Nothing should need it: a transport that misses an event loses this much time, and not the operation.
constexpr auto kLongestSleep = std::chrono::seconds(1);
/// So many kicks within so short a time are a burst: many small operations are started one after the other.
constexpr std::uint64_t kBurst = 8;
constexpr auto kBurstTime = milliseconds(1);
constexpr auto kRest = microseconds(200);

}  // namespace

void Engine::kick() {
  kicks_.fetch_add(1, std::memory_order_relaxed);
  if (driving_.load()) {
    if (driver_bed_.occupied.load()) driver_bed_.wake();
    return;
  }
  if (!background_.joinable() || kicked_.exchange(true)) return;
  if (background_bed_.occupied.load()) {
    background_bed_.wake();
    return;
  }
  { const std::lock_guard lock(background_mutex_); }
  background_changed_.notify_one();
}

/// Rests while waiting threads drive: short naps that grow as long as they go on, ended by `kick`. A thread
/// that carries out its operations at once does not advance others: for these a nap is short.
void Engine::nap() {
  auto length = kShortNap;
  auto seen = drives_.load(std::memory_order_relaxed);
  std::unique_lock lock(background_mutex_);
  while (!stop_) {
    if (background_changed_.wait_for(lock, length, [&] { return stop_.load() || kicked_.load(); })) return;
    const auto now = drives_.load(std::memory_order_relaxed);
    if (now == seen && !driving_.load()) return;
    if (!driving_.load() && busy()) return;
    seen = now;
    length = std::min(length * 2, kLongNap);
  }
}

/// Whether operations are being started in a burst.
bool Engine::in_burst() {
  const auto kicks = kicks_.load(std::memory_order_relaxed);
  if (kicks - counted_kicks_ < kBurst) return false;
  const auto since = std::exchange(counted_at_, std::chrono::steady_clock::now());
  counted_kicks_ = kicks;
  return counted_at_ - since < kBurstTime;
}

/// Stays away for a moment without being kicked. Over shared memory, whoever starts operations in a burst
/// advances the earlier ones with each, and has to wait for the baton if another thread does so, too.
void Engine::rest() {
  kicked_.store(true);
  std::unique_lock lock(background_mutex_);
  background_changed_.wait_for(lock, kRest, [&] { return stop_.load(); });
}

void Engine::run_background() {
  auto seen = drives_.load(std::memory_order_relaxed);
  while (!stop_) {
    const auto now = drives_.load(std::memory_order_relaxed);
    if (driving_.load() || (now != seen && !kicked_.load())) {
      nap();
      seen = drives_.load(std::memory_order_relaxed);
      if (driving_.load()) {
        kicked_.store(false);
        continue;
      }
    }
    kicked_.store(false);
    bool moved = false;
    {
      const Baton baton(*this);
      moved = drive_once();
    }
    wake_sleepers();
    if (yields_.load(std::memory_order_relaxed) && in_burst()) {
      rest();
      continue;
    }
    if (moved) {
      if (contenders_.load(std::memory_order_relaxed) > 0) ::sched_yield();
      continue;
    }
    background_bed_.occupied.store(true);
    if (!kicked_.load() && !stop_) sleep(background_bed_, std::chrono::steady_clock::now() + kLongestSleep);
    background_bed_.occupied.store(false);
  }
}

void Engine::stop_background() {
  if (!owner_.is_here()) return leak(background_);  // no thread of this process
  if (!background_.joinable()) return;
  stop_.store(true);
  { const std::lock_guard lock(background_mutex_); }
  background_bed_.wake();
  background_changed_.notify_all();
  background_.join();
}

}  // namespace ucxring
