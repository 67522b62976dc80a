#include "backend/work.hpp"

#include <ATen/core/jit_type.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <utility>

#include "backend/ending.hpp"
#include "backend/errors.hpp"
#include "transport/base/deadline.hpp"

namespace ucxring {
namespace {

constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

/// Null when no profiler is active: the title alone makes the base class record.
const char* profiling_title(const char* title) { return at::hasCallbacks() ? title : nullptr; }

}  // namespace

WorkUcxring::WorkUcxring(std::shared_ptr<GroupContext> group, Request request)
    : Work(group->rank, request.type, profiling_title(request.title),
           at::hasCallbacks() ? std::make_optional(request.inputs) : std::nullopt),
      group_(std::move(group)),
      id_(group_->works.fetch_add(1) + 1),
      request_(std::move(request)) {}

void WorkUcxring::add(Operation operation) { operations_.push_back(std::move(operation)); }

bool WorkUcxring::ready() const noexcept {
  for (const Operation& operation : operations_) {
    if (!operation.done()) return false;
  }
  return true;
}

bool WorkUcxring::drive(std::chrono::milliseconds limit) {
  const Deadline deadline = limit.count() > 0 ? Deadline::after(limit) : Deadline();
  for (const Operation& operation : operations_) {
    if (operation.done()) continue;
    const auto left = limit.count() > 0 ? std::max(deadline.left(kForever), std::chrono::milliseconds(1))
                                        : std::chrono::milliseconds(0);
    static_cast<void>(operation.wait(left));
    if (!operation.done()) return false;
  }
  return true;
}

void WorkUcxring::settle() {
  if (settling_.exchange(true)) {
    await_settling();
    return;
  }
  if (request_.after_earlier) group_->pending.finish_before(id_);
  std::exception_ptr why = failure();
  if (why == nullptr) why = copy_back();
  request_.inputs.clear();
  request_.staging.clear();
  request_.copy_back = nullptr;
  finished_ = std::chrono::steady_clock::now();
  if (const auto end_of_event = std::exchange(recordFunctionEndCallback_, nullptr)) end_of_event();
  finish(std::move(why));
  settled_.store(true, std::memory_order_release);
  group_->pending.remove(id_);
}

void WorkUcxring::await_settling() {
  std::unique_lock lock(mutex_);
  cv_.wait(lock, [&] { return completed_; });
}

std::exception_ptr WorkUcxring::failure() const {
  for (const Operation& operation : operations_) {
    const Status status = operation.status();
    if (!status.ok()) return to_torch_exception(status, group_->description);
  }
  return nullptr;
}

std::exception_ptr WorkUcxring::copy_back() {
  try {
    if (request_.copy_back) request_.copy_back();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void WorkUcxring::complete_future() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(future_mutex_);
    future = future_;
  }
  if (future == nullptr || future->completed()) return;
  if (exception_ == nullptr) {
    future->markCompleted(c10::IValue(request_.outputs));
  } else {
    future->setError(exception_);
  }
}

void WorkUcxring::tell_hook() {
  const auto hook = group_->on_completion.load();
  if (hook == nullptr || hook_told_.exchange(true)) return;
  const std::chrono::duration<float> active = finished_ - started_;
  (*hook)(std::make_shared<c10d::WorkInfo>(opType_, getSequencenumber(), started_, finished_, active));
}

bool WorkUcxring::isCompleted() {
  if (settled_.load(std::memory_order_acquire)) return true;
  if (!group_->owner.is_here()) return false;
  if (!ready() || settling_.load()) return false;
  settle();
  return true;
}

bool WorkUcxring::isSuccess() const {
  return const_cast<WorkUcxring*>(this)->isCompleted() && Work::isSuccess();
}

std::exception_ptr WorkUcxring::exception() const {
  const_cast<WorkUcxring*>(this)->isCompleted();
  return Work::exception();
}

std::vector<at::Tensor> WorkUcxring::result() {
  TORCH_CHECK(isCompleted(), "the work must be completed before result() is called");
  return request_.outputs;
}

void WorkUcxring::synchronize() { wait(kNoTimeout); }

bool WorkUcxring::wait(std::chrono::milliseconds timeout) {
  const EndingGuard guard;
  if (!settled_.load(std::memory_order_acquire)) group_->require_here();
  if (!drive(timeout)) {
    throw_backend_error(fmt::format(
        "ucxring [timeout] wait() of {} ms is over; operation {} ({}) of rank {} is still in flight",
        timeout.count(), getSequencenumber(), request_.title, group_->rank));
  }
  settle();
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  return true;
}

void WorkUcxring::abort() {
  if (const auto communicator = group_->communicator.lock()) {
    communicator->abort(Status(ErrorCode::transport, fmt::format("rank {} aborted operation {}", group_->rank,
                                                                 getSequencenumber())));
  }
}

c10::intrusive_ptr<c10::ivalue::Future> WorkUcxring::getFuture() {
  group_->require_here();
  {
    const std::lock_guard lock(future_mutex_);
    if (future_ != nullptr) return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  }
  // Behind futures of older works it waits its turn, so that callbacks run in the order of the operations.
  if (isCompleted() && (request_.point_to_point || group_->futures.idle())) {
    complete_future();
  } else {
    group_->futures.submit(c10::intrusive_ptr<WorkUcxring>::reclaim_copy(this));
  }
  return future_;
}

uint64_t WorkUcxring::getSequencenumber() const {
  return operations_.empty() ? 0 : operations_.back().sequence();
}

float WorkUcxring::getDuration() const {
  TORCH_CHECK(group_->observed.load(),
              "the duration of a work is known only after enable_collectives_timing");
  TORCH_CHECK(settled_.load(std::memory_order_acquire),
              "the duration of a work is known when it is completed");
  return std::chrono::duration<float, std::milli>(finished_ - started_).count();
}

int WorkUcxring::sourceRank() const {
  TORCH_CHECK(request_.type == c10d::OpType::RECVANYSOURCE,
              "only a receive from any source has a source rank to tell");
  return operations_.front().source().value;
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
std::chrono::milliseconds WorkUcxring::getTimeout() const { return request_.timeout; }
#endif

}  // namespace ucxring
