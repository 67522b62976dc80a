// What every operation in flight has: an outcome, a deadline, and threads that wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "collectives/engine.hpp"
#include "transport/transport.hpp"

namespace ucxring {

/// The part of an operation that its handle sees. `done`, `status`, `sequence`, `source`, `received_bytes`,
/// `describe` and `wait` may be called by any thread that holds a handle; the rest with the baton.
class OperationState {
 public:
  OperationState() = default;
  virtual ~OperationState() = default;
  OperationState(const OperationState&) = delete;
  OperationState& operator=(const OperationState&) = delete;

  /// True from completion on. The other results are visible once this is true.
  [[nodiscard]] const std::atomic<bool>& done() const noexcept { return done_; }
  [[nodiscard]] const Status& status() const noexcept { return status_; }
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  [[nodiscard]] Time deadline() const noexcept { return deadline_; }
  [[nodiscard]] Time started() const noexcept { return started_; }
  /// Who sent what a receive got; no rank for every other operation.
  [[nodiscard]] virtual Rank source() const noexcept { return {}; }
  /// How much a receive got.
  [[nodiscard]] virtual std::size_t received_bytes() const noexcept { return 0; }
  /// "all_reduce(sum, float32, 8 elements) #3", for messages.
  [[nodiscard]] virtual std::string describe() const = 0;

  /// Waits as `Operation::wait`.
  Status wait(std::chrono::milliseconds limit) const;
  /// Who drives while somebody waits, and the virtual clock if the transport has one. Set by the group.
  void set_waiting(Engine& engine, const Context* virtual_clock) noexcept;

 protected:
  /// From here on the operation is in flight, at most for `timeout`.
  void begin(std::uint64_t sequence, Time now, std::chrono::milliseconds timeout) noexcept;
  void finish(const Status& status);

 private:
  std::uint64_t sequence_ = 0;
  Time started_{};
  Time deadline_ = Time::max();
  Engine* engine_ = nullptr;
  const Context* virtual_clock_ = nullptr;
  Status status_;
  std::atomic<bool> done_{true};
};

}  // namespace ucxring
