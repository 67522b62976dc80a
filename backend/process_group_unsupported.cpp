// Operations of torch's interface that ucxring does not have yet. Each says so by name.
#include "backend/errors.hpp"
#include "backend/process_group.hpp"

namespace ucxring {

using WorkPtr = ProcessGroupUcxring::WorkPtr;

WorkPtr ProcessGroupUcxring::allreduce_sparse(Tensors&, const c10d::AllreduceOptions&) {
  throw_not_implemented("all_reduce of sparse tensors");
}

WorkPtr ProcessGroupUcxring::reduce(Tensors&, const c10d::ReduceOptions&) { throw_not_implemented("reduce"); }

WorkPtr ProcessGroupUcxring::allgather_coalesced(TensorLists&, Tensors&, const c10d::AllgatherOptions&) {
  throw_not_implemented("all_gather_coalesced");
}

WorkPtr ProcessGroupUcxring::gather(TensorLists&, Tensors&, const c10d::GatherOptions&) {
  throw_not_implemented("gather");
}

WorkPtr ProcessGroupUcxring::scatter(Tensors&, TensorLists&, const c10d::ScatterOptions&) {
  throw_not_implemented("scatter");
}

WorkPtr ProcessGroupUcxring::alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&,
                                           std::vector<int64_t>&, const c10d::AllToAllOptions&) {
  throw_not_implemented("all_to_all_single");
}

WorkPtr ProcessGroupUcxring::alltoall(Tensors&, Tensors&, const c10d::AllToAllOptions&) {
  throw_not_implemented("all_to_all");
}

WorkPtr ProcessGroupUcxring::send(Tensors&, int, int) { throw_not_implemented("send"); }

WorkPtr ProcessGroupUcxring::recv(Tensors&, int, int) { throw_not_implemented("recv"); }

WorkPtr ProcessGroupUcxring::recvAnysource(Tensors&, int) { throw_not_implemented("recv from any source"); }

void ProcessGroupUcxring::monitoredBarrier(const c10d::BarrierOptions&, bool) {
  throw_not_implemented("monitored_barrier");
}

void ProcessGroupUcxring::startCoalescing() { throw_not_implemented("coalescing of arbitrary operations"); }

WorkPtr ProcessGroupUcxring::endCoalescing() { throw_not_implemented("coalescing of arbitrary operations"); }

void ProcessGroupUcxring::registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)>&&) {
  throw_not_implemented("a hook on completion");
}

void ProcessGroupUcxring::waitForPendingWorks() { throw_not_implemented("waiting for works with a hook"); }

void ProcessGroupUcxring::enableCollectivesTiming() { throw_not_implemented("timing of collectives"); }

c10::intrusive_ptr<c10d::Backend> ProcessGroupUcxring::split(const c10::intrusive_ptr<c10d::Store>&,
                                                             const std::vector<int>&,
                                                             const c10::intrusive_ptr<Backend::Options>&) {
  throw_not_implemented("split_group");
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupUcxring::merge(const c10::intrusive_ptr<c10d::Store>&,
                                                             const c10::intrusive_ptr<Backend::Options>&,
                                                             const int&, const int&) {
  throw_not_implemented("merge_remote_group");
}

}  // namespace ucxring
