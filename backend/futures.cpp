#include "backend/futures.hpp"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "backend/work.hpp"
#include "transport/base/log.hpp"

namespace ucxring {
namespace {

constexpr std::chrono::seconds kPatienceWithCallbacks{5};

constexpr std::chrono::milliseconds kInterruptPeriod{50};

/// While sends and receives are here, how often to look which of the works is done.
constexpr std::chrono::milliseconds kLookPeriod{2};

/// A callback that is still running so long after an operation it started has ended is taken to wait for it.
constexpr std::chrono::milliseconds kGrace{2};

thread_local bool runs_callbacks = false;

/// Waits for `work`, at most `limit`, and completes its future; runs the callbacks. False when it is not
/// done.
bool complete(WorkUcxring& work, std::chrono::milliseconds limit) {
  try {
    if (!work.drive(limit)) return false;
    work.settle();
    work.complete_future();
    work.tell_hook();
  } catch (const std::exception& error) {
    log::error("a callback of a future failed: {}", error.what());
  }
  return true;
}

}  // namespace

struct FutureThread::State {
  /// A work whose future was asked for by a callback.
  struct Nested {
    c10::intrusive_ptr<WorkUcxring> work;
    std::uint64_t callback;  // by which one, of the level below
  };
  /// One thread. Level 0 completes the queue; level k + 1 stands by for callbacks that run on level k.
  struct Level {
    std::thread thread;
    std::deque<Nested> nested;  // not of level 0
    bool completing = false;    // has taken a work
    bool ended = false;
    std::uint64_t callbacks = 0;  // that have been through here
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, c10::intrusive_ptr<WorkUcxring>> queue;  // by id
  std::deque<Level> levels;
  bool stopping = false;

  /// Collectives are completed in their order; sends and receives when they are done.
  [[nodiscard]] auto next() {
    auto first = queue.end();
    for (auto at = queue.begin(); at != queue.end(); ++at) {
      const bool in_order = !at->second->request().point_to_point;
      if (!in_order && at->second->ready()) return at;
      if (in_order && first == queue.end()) first = at;
    }
    return first != queue.end() ? first : queue.begin();
  }
  /// How long to wait for the next one.
  [[nodiscard]] std::chrono::milliseconds limit() const {
    const bool ordered = std::none_of(
        queue.begin(), queue.end(), [](const auto& entry) { return entry.second->request().point_to_point; });
    return ordered ? kNoTimeout : kLookPeriod;
  }
  [[nodiscard]] bool idle_above() const {
    return std::all_of(levels.begin() + 1, levels.end(),
                       [](const Level& level) { return level.nested.empty() && !level.completing; });
  }
  [[nodiscard]] bool idle() const {
    return queue.empty() && (levels.empty() || (!levels.front().completing && idle_above()));
  }
  [[nodiscard]] bool ended() const {
    return std::all_of(levels.begin(), levels.end(), [](const Level& level) { return level.ended; });
  }
  /// The level whose thread this is, or the number of levels.
  [[nodiscard]] std::size_t level_here() const {
    const auto is_here = [](const Level& level) {
      return level.thread.get_id() == std::this_thread::get_id();
    };
    return static_cast<std::size_t>(std::find_if(levels.begin(), levels.end(), is_here) - levels.begin());
  }
};

FutureThread::FutureThread() : state_(std::make_shared<State>()) {}
FutureThread::~FutureThread() {
  stop();
  if (!owner_.is_here()) leak(state_);  // threads that are not here, and what they wait on
}

void FutureThread::ensure_level(std::size_t level) {
  if (state_->levels.size() > level) return;
  State::Level& added = state_->levels.emplace_back();
  added.thread = level == 0 ? std::thread(&FutureThread::run, state_)
                            : std::thread(&FutureThread::stand_by, state_, level);
}

void FutureThread::submit(c10::intrusive_ptr<WorkUcxring> work) {
  {
    const std::lock_guard lock(state_->mutex);
    const std::size_t here = state_->level_here();
    const bool nested = here < state_->levels.size();
    if (!state_->stopping || nested) {
      ensure_level(nested ? here + 1 : 0);
      if (nested) {
        state_->levels[here + 1].nested.push_back({std::move(work), state_->levels[here].callbacks});
      } else {
        const std::uint64_t id = work->id();
        state_->queue.emplace(id, std::move(work));
      }
      state_->changed.notify_all();
      return;
    }
  }
  complete(*work, kNoTimeout);
}

bool FutureThread::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->idle();
}

void FutureThread::drain(void (*check)()) const {
  std::unique_lock lock(state_->mutex);
  if (state_->level_here() < state_->levels.size()) return;
  while (!state_->changed.wait_for(lock, kInterruptPeriod, [&] { return state_->idle(); })) {
    if (check == nullptr) continue;
    lock.unlock();
    check();
    lock.lock();
  }
}

bool FutureThread::is_here() noexcept { return runs_callbacks; }

void FutureThread::stop() {
  if (!owner_.is_here()) return;
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  const bool from_callback = state_->level_here() < state_->levels.size();
  const bool ended = !from_callback &&
                     state_->changed.wait_for(lock, kPatienceWithCallbacks, [&] { return state_->ended(); });
  std::vector<std::thread> threads;
  for (State::Level& level : state_->levels) {
    if (level.thread.joinable()) threads.push_back(std::move(level.thread));
  }
  lock.unlock();
  for (std::thread& thread : threads) ended ? thread.join() : thread.detach();
}

void FutureThread::run(const std::shared_ptr<State>& state) {
  pthread_setname_np(pthread_self(), "ucxring_futures");
  runs_callbacks = true;
  std::unique_lock lock(state->mutex);
  State::Level& here = state->levels.front();
  while (true) {
    state->changed.wait(lock,
                        [&] { return !state->queue.empty() || (state->stopping && state->idle_above()); });
    if (state->queue.empty()) break;
    const auto limit = state->limit();
    auto next = state->queue.extract(state->next());
    here.completing = true;
    lock.unlock();
    const bool completed = complete(*next.mapped(), limit);
    if (completed) next = {};
    lock.lock();
    if (!completed) state->queue.insert(std::move(next));
    here.completing = false;
    ++here.callbacks;
    state->changed.notify_all();
  }
  here.ended = true;
  state->changed.notify_all();
}

void FutureThread::stand_by(const std::shared_ptr<State>& state, std::size_t level) {
  pthread_setname_np(pthread_self(), "ucxring_nested");
  runs_callbacks = true;
  std::unique_lock lock(state->mutex);
  State::Level& here = state->levels[level];
  const State::Level& below = state->levels[level - 1];
  while (true) {
    state->changed.wait(lock, [&] { return !here.nested.empty() || (state->stopping && !below.completing); });
    if (here.nested.empty()) break;
    State::Nested item = std::move(here.nested.front());
    here.nested.pop_front();
    here.completing = true;
    lock.unlock();
    item.work->drive(kNoTimeout);
    lock.lock();
    if (state->changed.wait_for(lock, kGrace, [&] { return below.callbacks != item.callback; })) {
      const std::uint64_t id = item.work->id();
      state->queue.emplace(id, std::move(item.work));  // the callback has not waited for it: in its turn
    } else {
      lock.unlock();
      complete(*item.work, kNoTimeout);
      item.work.reset();
      lock.lock();
    }
    here.completing = false;
    ++here.callbacks;
    state->changed.notify_all();
  }
  here.ended = true;
  state->changed.notify_all();
}

}  // namespace ucxring
