#include "collectives/operation_state.hpp"

#include <fmt/format.h>

#include "transport/base/deadline.hpp"

namespace ucxring {

void OperationState::set_waiting(Engine& engine, const Context* virtual_clock) noexcept {
  engine_ = &engine;
  virtual_clock_ = virtual_clock;
}

void OperationState::begin(std::uint64_t sequence, Time now, std::chrono::milliseconds timeout) noexcept {
  sequence_ = sequence;
  started_ = now;
  deadline_ = saturating_sum(now, timeout);
  status_ = {};
  done_.store(false, std::memory_order_release);
}

Status OperationState::wait(std::chrono::milliseconds limit) const {
  if (!engine_->is_here() && !done_.load()) {
    return {ErrorCode::invalid_argument,
            fmt::format("{} belongs to the process that started it; a forked child cannot wait for it",
                        describe())};
  }
  auto until = Time::max();
  if (limit.count() > 0) {
    until = saturating_sum(
        virtual_clock_ != nullptr ? virtual_clock_->now() : std::chrono::steady_clock::now(), limit);
  }
  if (engine_->wait(done_, until, virtual_clock_)) return status_;
  return {
      ErrorCode::timeout,
      fmt::format("{} is not complete after waiting {} ms; it is still in flight and may be waited for again",
                  describe(), limit.count())};
}

void OperationState::finish(const Status& status) {
  status_ = status;
  done_.store(true);
}

}  // namespace ucxring
