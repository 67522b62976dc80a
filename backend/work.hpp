// The handle that torch gets for an operation in flight.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "backend/group_context.hpp"
#include "collectives/communicator.hpp"

namespace ucxring {

/// What an operation needs besides its communicator, and keeps alive until it is done.
struct Request {
  const char* title = "";  ///< for the profiler: "ucxring:all_reduce"
  c10d::OpType type = c10d::OpType::UNKNOWN;
  std::vector<at::Tensor> inputs;        ///< as the user passed them
  std::vector<at::Tensor> outputs;       ///< likewise; the value of the future
  std::vector<at::Tensor> staging;       ///< packed memory that the operations work on
  std::function<void()> copy_back;       ///< moves results from packed memory to `outputs`; may be empty
  std::chrono::milliseconds timeout{0};  ///< of the operations; 0 or less: the group's
  bool after_earlier = false;            ///< done only when every earlier work is settled
  bool point_to_point = false;           ///< not in the order of the collectives
};

/// One call of a collective: one or several operations. Thread-safe. Whoever notices first that the
/// operations are done settles the work: results are copied back, the profiler is told, inputs are released.
/// Neither a lock nor the engine's baton is held while that happens.
class WorkUcxring final : public c10d::Work {
 public:
  WorkUcxring(std::shared_ptr<GroupContext> group, Request request);

  /// Adds an operation that must end before the work is done. Only before the work is shared.
  void add(Operation operation);
  /// Only before the work is shared.
  [[nodiscard]] const Request& request() const noexcept { return request_; }
  [[nodiscard]] const std::vector<Operation>& operations() const noexcept { return operations_; }

  /// Number of the work in its group, in the order they were made.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// Whether all operations have ended.
  [[nodiscard]] bool ready() const noexcept;
  /// Waits at most `limit` (0: without limit), driving progress; returns `ready()`. Lets Python's interrupts
  /// out.
  bool drive(std::chrono::milliseconds limit);
  /// Finishes the work once its operations have ended.
  void settle();
  /// Gives the future its value or error and runs its callbacks. Only after `settle()`.
  void complete_future();
  /// Tells the group's hook, once. Only after `settle()`.
  void tell_hook();
  /// Whether the profiler waits for the end of this work.
  [[nodiscard]] bool profiled() const noexcept { return recordFunctionEndCallback_ != nullptr; }

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override;
  /// Milliseconds from the call to the end. Only for completed works of groups with
  /// `enableCollectivesTiming`.
  float getDuration() const override;
  /// Of a receive from any source that is done.
  int sourceRank() const override;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  std::chrono::milliseconds getTimeout() const override;
#endif

 private:
  [[nodiscard]] std::exception_ptr failure() const;
  std::exception_ptr copy_back();
  void await_settling();

  std::shared_ptr<GroupContext> group_;
  const std::uint64_t id_;
  Request request_;
  std::vector<Operation> operations_;
  std::atomic<bool> settling_{false};
  std::atomic<bool> settled_{false};
  std::atomic<bool> hook_told_{false};
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point finished_;  // once settled
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace ucxring
