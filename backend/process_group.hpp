// ucxring as a backend of torch.distributed.
#pragma once

#include <c10/util/FunctionRef.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "backend/convert.hpp"
#include "backend/group_context.hpp"
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
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  [[nodiscard]] const c10::intrusive_ptr<OptionsUcxring>& options() const noexcept { return options_; }
  /// "ucx", …
  [[nodiscard]] std::string transport_name() const { return std::string(communicator_->transport_name()); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  /// Also waits for every earlier work of this rank and reports its error.
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;

  // Not there yet; each throws NotImplementedError with its name.
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override;
  void enableCollectivesTiming() override;
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Backend::Options>& opts) override;
  c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                    const c10::intrusive_ptr<Backend::Options>& opts, const int& rank,
                                    const int& size) override;

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
  static WorkPtr wait_inline(const c10::intrusive_ptr<WorkUcxring>& work, GroupContext& context);
  WorkPtr gather_pairs(Request request, bool async_op);
  WorkPtr reduce_pairs(Request request, const Reducing& reducing, bool async_op);

  c10::intrusive_ptr<OptionsUcxring> options_;
  std::shared_ptr<GroupContext> context_;
  std::shared_ptr<Communicator> communicator_;
};

}  // namespace ucxring
