// From a forward to the moment in which its backward is known to average.
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "backend/ddp/reducer.hpp"
#include "backend/errors.hpp"

namespace ucxring::ddp {
namespace {

bool inside_backward() { return torch::autograd::get_current_graph_task_id() != -1; }

}  // namespace

void Reducer::begin_forward(bool synchronise) {
  const std::lock_guard lock(mutex_);
  if (inside_backward() && running_) return;  // a checkpoint around the module computes its forward again
  if (running_) abandon_step();
  // zero_grad() has thrown away what was accumulated.
  if (samples_ > 0 && std::ranges::none_of(tensors_, [](const auto& each) { return each.grad().defined(); }))
    samples_ = 0;
  timing_.forward = now_seconds();
  if (synchronise && !armed_) rebuild_buckets();
}

/// Whether a backward can give gradients to any parameter; not in a GAN's step for the other network.
bool Reducer::learns() const {
  return std::ranges::any_of(tensors_, [](const auto& each) { return each.requires_grad(); });
}

void Reducer::end_forward(std::span<const at::Tensor> outputs, bool synchronise, std::int64_t samples) {
  const std::lock_guard lock(mutex_);
  if (inside_backward() && running_) return;
  if (!learns()) return;
  if (synchronise) {
    armed_ = true;
    if (options_.find_unused_parameters) mark_reached(outputs, hooks_->accumulators(), reached_);
  }
  const auto forward =
      std::make_shared<Forward>(Forward{synchronise, generation_, synchronise ? 0 : samples});
  bool watched = false;
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad() || output.is_leaf()) continue;
    watched = true;
    // The graph keeps the reducer: its backward averages also when the wrapper is gone by then.
    output.register_hook(
        [self = shared_from_this(), forward](const at::Tensor&) { self->backward_reaches(*forward); });
  }
  if (!watched) samples_ += forward->samples;  // its backward will not be seen: it is taken for granted
}

/// Whether the backward at hand is restricted (`torch.autograd.grad`, `backward(inputs=...)`) and adds to no
/// parameter's gradient. Gradients with respect to parameters that are only returned do not execute the node
/// that adds.
bool Reducer::backward_passes_by() const {
  const auto* const restricted = torch::autograd::get_current_graph_task_exec_info();
  if (restricted == nullptr || restricted->empty()) return false;
  const AccumulatorIndex& accumulators = hooks_->accumulators();
  return std::ranges::none_of(*restricted, [&](const auto& each) {
    return each.second.needed_ && accumulators.contains(each.first);
  });
}

void Reducer::backward_reaches(Forward& forward) {
  const std::lock_guard lock(mutex_);
  if (backward_passes_by()) return;
  samples_ += std::exchange(forward.samples, 0);
  if (!running_) begin_backward();
  if (!forward.synchronise || synchronising_) return;
  if (forward.generation != generation_) {
    throw_value_error(
        "ucxring DDP: backward runs through a forward whose gradients have been averaged already, so what it "
        "adds "
        "would differ between ranks. Add up the losses and call backward once, or put all but the last "
        "forward "
        "and backward into no_sync().");
  }
  start_synchronising();
}

void Reducer::begin_backward() {
  running_ = true;
  timing_.backward = now_seconds();
  // It keeps the reducer to the end of backward, whatever becomes of the wrapper.
  torch::autograd::Engine::get_default_engine().queue_callback(
      [self = shared_from_this()] { self->finish_backward(); });
}

}  // namespace ucxring::ddp
