#include "backend/ddp/exchange.hpp"

#include <string>
#include <utility>

namespace ucxring::ddp {
namespace {

/// Backends whose all-reduce knows how to average.
bool averages_itself(c10d::ProcessGroup& group, c10::Device device) {
  const std::string name = group.getBackend(device.type())->getBackendName();
  return name == "ucxring" || name == "nccl";
}

at::Tensor zero_sparse(const at::Tensor& parameter) {
  return at::zeros(parameter.sizes(), parameter.options().layout(at::kSparse).requires_grad(false));
}

}  // namespace

Exchange::Exchange(c10::intrusive_ptr<c10d::ProcessGroup> group, c10::Device device)
    : group_(std::move(group)),
      rank_(group_->getRank()),
      world_size_(group_->getSize()),
      has_average_(averages_itself(*group_, device)) {}

double Exchange::factor() const noexcept {
  if (hook_) return weighted_ ? weight_ * world_size_ : 1.0;  // hooks divide by the world size
  if (averages()) return 1.0;
  return share();
}

Exchange::Flight Exchange::start(Bucket& bucket, std::size_t index, std::size_t count,
                                 std::span<const at::Tensor> parameters) {
  const double started = now_seconds();
  Flight flight;
  if (bucket.sparse()) {
    flight = start_sparse(bucket, index, count, parameters);
  } else if (hook_) {
    flight = start_hook(bucket, bucket.flat(), index, count, parameters);
  } else {
    c10d::AllreduceOptions options;
    options.reduceOp = averages() ? c10d::ReduceOp::AVG : c10d::ReduceOp::SUM;
    std::vector<at::Tensor> tensors{bucket.storage()};
    flight.work = group_->allreduce(tensors, options);
  }
  flight.timing.bytes = bucket.bytes();
  flight.timing.started = started;
  return flight;
}

Exchange::Flight Exchange::start_hook(const Bucket& bucket, const at::Tensor& buffer, std::size_t index,
                                      std::size_t count, std::span<const at::Tensor> parameters) {
  std::vector<std::size_t> offsets;
  std::vector<std::size_t> lengths;
  std::vector<c10::IntArrayRef> shapes;
  std::vector<at::Tensor> members;
  for (std::size_t member = 0; member < bucket.members().size(); ++member) {
    const at::Tensor& parameter = parameters[bucket.members()[member]];
    if (!bucket.sparse()) {
      offsets.push_back(bucket.offset(member));
      lengths.push_back(static_cast<std::size_t>(parameter.numel()));
      shapes.push_back(parameter.sizes());
    }
    members.push_back(parameter);
  }
  c10d::GradBucket given(index, count, buffer, std::move(offsets), std::move(lengths), std::move(shapes),
                         std::move(members), std::nullopt);
  Flight flight;
  flight.future = hook_->runHook(given);
  return flight;
}

Exchange::Flight Exchange::start_sparse(const Bucket& bucket, std::size_t index, std::size_t count,
                                        std::span<const at::Tensor> parameters) {
  const at::Tensor& parameter = parameters[bucket.members().front()];
  at::Tensor gradient = parameter.grad().defined() ? parameter.grad() : zero_sparse(parameter);
  if (!gradient.is_sparse()) gradient = gradient.to_sparse(1);
  gradient = gradient * (hook_ ? factor() : share());  // never the user's own
  Flight flight;
  if (hook_) {
    flight = start_hook(bucket, gradient, index, count, parameters);
  } else {
    std::vector<at::Tensor> tensors{gradient};
    flight.work = group_->allreduce(tensors, {});
  }
  flight.sparse_gradient = std::move(gradient);
  return flight;
}

void Exchange::finish(Flight& flight, Bucket& bucket) {
  if (flight.work) flight.work->wait();
  if (flight.future) {
    flight.future->waitAndThrow();
    const at::Tensor result = hook_->parseHookResult(flight.future->value());
    if (bucket.sparse()) {
      flight.sparse_gradient = result;
    } else if (result.data_ptr() != bucket.flat().data_ptr()) {
      bucket.flat().copy_(result.view_as(bucket.flat()));
    }
  }
  if (flight.timing.finished == 0) flight.timing.finished = now_seconds();
}

bool Exchange::look(Flight& flight) {
  const bool done = flight.work ? flight.work->isCompleted() : flight.future && flight.future->completed();
  if (done && flight.timing.finished == 0) flight.timing.finished = now_seconds();
  return done;
}

c10::intrusive_ptr<c10d::Work> Exchange::start_sum(const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  return group_->allreduce(tensors, {});
}

}  // namespace ucxring::ddp
