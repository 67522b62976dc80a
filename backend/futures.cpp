#include "backend/futures.hpp"

#include <pthread.h>

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

/// Waits for `work` and completes its future; runs the callbacks.
void complete(WorkUcxring& work) {
  try {
    work.drive(kNoTimeout);
    work.settle();
    work.complete_future();
  } catch (const std::exception& error) {
    log::error("a callback of a future failed: {}", error.what());
  }
}

}  // namespace

struct FutureThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, c10::intrusive_ptr<WorkUcxring>> queue;  // by sequence number
  bool completing = false;
  bool stopping = false;
  bool ended = false;
};

FutureThread::FutureThread() : state_(std::make_shared<State>()) {}
FutureThread::~FutureThread() { stop(); }

void FutureThread::submit(c10::intrusive_ptr<WorkUcxring> work) {
  const std::uint64_t sequence = work->getSequencenumber();
  {
    const std::lock_guard thread_lock(thread_mutex_);
    std::unique_lock lock(state_->mutex);
    if (!state_->stopping) {
      if (!thread_.joinable()) thread_ = std::thread(&FutureThread::run, state_);
      state_->queue.emplace(sequence, std::move(work));
      lock.unlock();
      state_->changed.notify_all();
      return;
    }
  }
  complete(*work);
}

bool FutureThread::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.empty() && !state_->completing;
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
  while (true) {
    state->changed.wait(lock, [&] { return state->stopping || !state->queue.empty(); });
    if (state->queue.empty()) break;
    auto oldest = state->queue.extract(state->queue.begin());
    state->completing = true;
    lock.unlock();
    complete(*oldest.mapped());
    oldest = {};
    lock.lock();
    state->completing = false;
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace ucxring
