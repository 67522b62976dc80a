// ucxring as a backend of torch.distributed.
#pragma once

#include <c10/util/FunctionRef.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "backend/coalescing.hpp"
#include "backend/convert.hpp"
#include "backend/group_context.hpp"
#include "backend/monitored_barrier.hpp"
#include "backend/options.hpp"
#include "backend/work.hpp"
#include "collectives/communicator.hpp"

namespace ucxring {

/// One rank's membership in one group of torch.distributed. Tensors live on the CPU; any strides are fine.
///
/// Collectives return at once with a `Work`, or, for calls with `asyncOp` false, run in the calling thread,
/// return null when done and throw when failed. Argument errors throw before anything is sent. Thread-safe as
/// `Communicator` is. None of these functions may be called with Python's GIL held: torch's bindings release
/// it.
class ProcessGroupUcxring final : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  static constexpr const char* kName = "ucxring";

  /// Joins the group; collective over its ranks. Failures are torch exceptions (DistBackendError names
  /// missing ranks). `check` is called while waiting for others and may throw.
  ProcessGroupUcxring(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                      c10::intrusive_ptr<OptionsUcxring> options, void (*check)());
  /// As `shutdown`.
  ~ProcessGroupUcxring() override;

  const std::string getBackendName() const override { return kName; }
  /// A copy: torch changes what it gets when it makes a group of some of the ranks.
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override;
  [[nodiscard]] const c10::intrusive_ptr<OptionsUcxring>& options() const noexcept { return options_; }
  /// As `Communicator::link_bytes_per_second`.
  [[nodiscard]] double link_bytes_per_second() const noexcept {
    return communicator_->link_bytes_per_second();
  }
  /// "ucx", …
  [[nodiscard]] std::string transport_name() const { return std::string(communicator_->transport_name()); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  /// The sum of sparse COO tensors. Waits for the other ranks in any case, to learn how many entries they
  /// have.
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  /// `outputs[rank][i]` becomes that rank's `inputs[i]`.
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  /// Leaves the tensors of ranks other than the root alone.
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  /// Ranks may give tensors of different sizes; the root's list says which.
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  /// Ranks may get tensors of different sizes; the root's list says which.
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;
  /// Splits count rows (indices of the first dimension). Either all ranks name splits, or none.
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;

  /// As `Communicator::send` and its siblings: messages match by tag, a receive takes a message of its dtype
  /// that is no larger than its tensor. Always return a work, whose tensors must stay as they are until it is
  /// done.
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  /// `sourceRank` of the work tells, once it is done, which rank of the group it was.
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  /// Of batched sends and receives, which gain nothing by it here. Torch's manager does not end a coalescing
  /// in which something is raised, and then even its own part of the group stays unusable.
  bool supportsCoalescing() const override { return false; }
  /// Whatever the calling thread starts between the two with `asyncOp` is also waited for by the one work
  /// that `endCoalescing` returns; what is synchronous is done when its call returns. The pair may stand
  /// around an `abort`.
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  /// Also waits for every earlier work of this rank, except sends and receives, and reports its error.
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  /// Through the store: it names the ranks that do not come (`MonitoredBarrier`) and fails no other
  /// operation.
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

  /// `hook` is called for each work that ends from now on, in order, on a thread of the group that holds no
  /// lock. One hook a group.
  void registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  /// Returns when the hook has been told of every work so far.
  void waitForPendingWorks() override;
  /// From now on works know how long they took.
  void enableCollectivesTiming() override;

  bool supportsSplitting() const override { return true; }
  /// A group of `ranks` of this group, which must all call it; null on other ranks. `opts` are taken over
  /// with the name and timeout that torch has put there.
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Backend::Options>& opts) override;
  /// A group of this rank and ranks of other groups, which all see `store`.
  c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                    const c10::intrusive_ptr<Backend::Options>& opts, const int& rank,
                                    const int& size) override;

  /// A one-dimensional CPU tensor of `size` elements over registered memory, as `ucxring.empty`: collectives
  /// between processes of one host use it without a copy of their own.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;  // NOLINT(google-runtime-int)
  /// Whether `allocateTensor` makes tensors for this device: for the CPU, which has no index.
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0; }
  /// Where `allocateTensor` gets its memory.
  std::shared_ptr<c10::Allocator> getMemAllocator() override;

  /// Sequence numbers start at 0 on every rank, so there is nothing to agree on.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return communicator_->sequence(); }
  void setTimeout(std::chrono::milliseconds timeout) override;
  c10d::ErrorType getError() override;

  /// Fails everything in flight and all later calls, here and on the other ranks. Prompt; idempotent.
  void abort() override;
  /// Leaves the group: operations in flight fail, futures complete, threads end. Prompt; idempotent.
  void shutdown() override;

 private:
  /// Adds the operations to a work, given what the work keeps alive.
  using Start = c10::function_ref<void(WorkUcxring& work, const Request& request, CallOptions call)>;
  WorkPtr launch(Request request, bool async_op, Start start);
  /// The latency path: runs a call in the caller's thread that needs nothing around its one operation,
  /// neither a handle, nor copies, nor the profiler. False, with nothing done, when it needs any.
  using StartOne = c10::function_ref<Operation(CallOptions call)>;
  using TensorRefs = std::initializer_list<std::reference_wrapper<const at::Tensor>>;
  bool run_bare(bool async_op, TensorRefs tensors, std::chrono::milliseconds timeout, StartOne start);
  static WorkPtr wait_inline(const c10::intrusive_ptr<WorkUcxring>& work, GroupContext& context);
  /// Options for a group made of this one: `chosen`, or where they are not ours, this group's with the
  /// timeout and names from there.
  [[nodiscard]] c10::intrusive_ptr<OptionsUcxring> derived_options(
      const c10::intrusive_ptr<Backend::Options>& chosen) const;
  WorkPtr gather_pairs(Request request, bool async_op,
                       const std::vector<std::vector<std::size_t>>& counts = {});
  WorkPtr reduce_pairs(Request request, const Reducing& reducing, bool async_op);

  c10::intrusive_ptr<OptionsUcxring> options_;
  void (*check_)();
  std::atomic<bool> interrupted_{false};  // somebody did not want to wait for works any more
  std::shared_ptr<GroupContext> context_;
  Coalescing coalescing_;
  std::shared_ptr<Communicator> communicator_;
  std::unique_ptr<MonitoredBarrier> monitored_barrier_;
};

}  // namespace ucxring
