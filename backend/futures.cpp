#include "backend/futures.hpp"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <utility>

#include "backend/work.hpp"
#include "transport/base/log.hpp"

namespace ucxring {
namespace {

constexpr std::chrono::seconds kPatienceWithCallbacks{5};

/// While sends and receives are here, how often to look which of the works is done.
constexpr std::chrono::milliseconds kLookPeriod{2};

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
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, c10::intrusive_ptr<WorkUcxring>> queue;  // by id
  std::thread::id thread;
  bool completing = false;
  bool stopping = false;
  bool ended = false;

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
};

FutureThread::FutureThread() : state_(std::make_shared<State>()) {}
FutureThread::~FutureThread() { stop(); }

void FutureThread::submit(c10::intrusive_ptr<WorkUcxring> work) {
  const std::uint64_t id = work->id();
  {
    const std::lock_guard thread_lock(thread_mutex_);
    std::unique_lock lock(state_->mutex);
    if (!state_->stopping) {
      if (!thread_.joinable()) thread_ = std::thread(&FutureThread::run, state_);
      state_->queue.emplace(id, std::move(work));
      lock.unlock();
      state_->changed.notify_all();
      return;
    }
  }
  complete(*work, kNoTimeout);
}

bool FutureThread::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.empty() && !state_->completing;
}

void FutureThread::drain() const {
  std::unique_lock lock(state_->mutex);
  if (state_->thread == std::this_thread::get_id()) return;
  state_->changed.wait(lock, [&] { return state_->queue.empty() && !state_->completing; });
}

void FutureThread::stop() {
  const std::lock_guard thread_lock(thread_mutex_);
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  if (!thread_.joinable()) return;
  const bool from_callback = thread_.get_id() == std::this_thread::get_id();
  const bool ended =
      !from_callback && state_->changed.wait_for(lock, kPatienceWithCallbacks, [&] { return state_->ended; });
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void FutureThread::run(const std::shared_ptr<State>& state) {
  pthread_setname_np(pthread_self(), "ucxring_futures");
  std::unique_lock lock(state->mutex);
  state->thread = std::this_thread::get_id();
  while (true) {
    state->changed.wait(lock, [&] { return state->stopping || !state->queue.empty(); });
    if (state->queue.empty()) break;
    const auto limit = state->limit();
    auto next = state->queue.extract(state->next());
    state->completing = true;
    lock.unlock();
    const bool completed = complete(*next.mapped(), limit);
    if (completed) next = {};
    lock.lock();
    if (!completed) state->queue.insert(std::move(next));
    state->completing = false;
    state->changed.notify_all();
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace ucxring
