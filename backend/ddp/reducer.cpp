#include "backend/ddp/reducer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "backend/ddp/agreement.hpp"
#include "backend/errors.hpp"

namespace ucxring::ddp {
namespace {

/// Gradients of equal kinds can share a bucket.
std::int64_t kind_of(const at::Tensor& parameter) {
  const c10::Device device = parameter.device();
  return (static_cast<std::int64_t>(parameter.scalar_type()) * 64 +
          static_cast<std::int64_t>(device.type())) *
             1024 +
         device.index();
}

/// The parameters in the order in which backward is expected to give their gradients.
std::vector<std::size_t> reversed(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

}  // namespace

std::shared_ptr<Reducer> Reducer::create(std::vector<at::Tensor> parameters, std::vector<std::string> names,
                                         const std::vector<bool>& sparse,
                                         c10::intrusive_ptr<c10d::ProcessGroup> group,
                                         const ReducerOptions& options) {
  if (parameters.empty())
    throw_value_error("ucxring DDP: the module has no parameter that requires a gradient");
  std::shared_ptr<Reducer> reducer(
      new Reducer(std::move(parameters), std::move(names), sparse, std::move(group), options));
  reducer->watch_gradients();
  return reducer;
}

Reducer::Reducer(std::vector<at::Tensor> parameters, std::vector<std::string> names,
                 const std::vector<bool>& sparse, c10::intrusive_ptr<c10d::ProcessGroup> group,
                 const ReducerOptions& options)
    : options_(options),
      tensors_(std::move(parameters)),
      exchange_(std::move(group), tensors_.front().device()),
      reached_(tensors_.size(), false),
      counting_(options.static_graph) {
  for (std::size_t index = 0; index < tensors_.size(); ++index) {
    Parameter& parameter = parameters_.emplace_back();
    parameter.tensor = tensors_[index];
    parameter.name = std::move(names[index]);
    parameter.sparse = sparse[index];
  }
  build_buckets(reversed(tensors_.size()));
}

void Reducer::watch_gradients() {
  // A weak reference: hooks may outlive the reducer by the moment in which autograd calls one.
  hooks_ = std::make_unique<GradientHooks>(tensors_, [weak = weak_from_this()](std::size_t index) {
    if (const auto self = weak.lock()) self->gradient_arrived(index);
  });
}

void Reducer::build_buckets(std::span<const std::size_t> order) {
  std::vector<GradientShape> shapes;
  for (const Parameter& parameter : parameters_)
    shapes.push_back({parameter.tensor.nbytes(), kind_of(parameter.tensor), parameter.sparse});
  const auto plan = plan_buckets(shapes, order, options_.limits);
  if (rebuilt_ && plan == members_of_buckets()) return;
  const std::lock_guard figures_lock(figures_mutex_);
  buckets_.clear();
  if (alone()) return;
  // Notes travel in the last bucket that has room for them.
  const auto noted = std::find_if(plan.rbegin(), plan.rend(), [&](const auto& members) {
    return !parameters_[members.front()].sparse && Bucket::has_room_for_notes(tensors_[members.front()]);
  });
  const bool notes = noted != plan.rend();
  noted_bucket_ = notes ? static_cast<std::size_t>(plan.rend() - noted) - 1 : 0;
  for (std::size_t index = 0; index < plan.size(); ++index) {
    const bool sparse = parameters_[plan[index].front()].sparse;
    buckets_.emplace_back(plan[index], tensors_, sparse, notes && index == noted_bucket_, exchange_.group());
    for (std::size_t member = 0; member < plan[index].size(); ++member) {
      parameters_[plan[index][member]].bucket = index;
      parameters_[plan[index][member]].member = member;
    }
  }
  move_gradients_into_buckets();
}

void Reducer::move_gradients_into_buckets() {
  if (!options_.gradient_as_bucket_view) return;
  const at::NoGradGuard no_grad;
  for (Parameter& parameter : parameters_) {
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (parameter.sparse || !gradient.defined() || gradient.layout() != at::kStrided) continue;
    const at::Tensor& place = buckets_[parameter.bucket].view(parameter.member);
    place.copy_(gradient);
    gradient = place;
  }
}

void Reducer::rebuild_buckets() {
  if (rebuilt_ || !order_known_ || alone() || options_.find_unused_parameters) return;
  std::vector<std::int64_t> order(order_.begin(), order_.end());
  at::Tensor common = at::tensor(order, at::kLong).to(tensors_.front().device());
  broadcast_values(exchange_.group(), std::span(&common, 1), 0);
  const at::Tensor received = common.cpu();
  const auto* const first = received.data_ptr<std::int64_t>();
  rebuilt_ = true;
  build_buckets(std::vector<std::size_t>(first, first + received.numel()));
}

void Reducer::set_weight(std::optional<double> weight) {
  const std::lock_guard lock(mutex_);
  if (weight) {
    exchange_.set_weight(*weight);
  } else {
    exchange_.clear_weight();
  }
}

void Reducer::set_comm_hook(std::unique_ptr<c10d::CommHookInterface> hook, bool chains) {
  const std::lock_guard lock(mutex_);
  if (exchange_.has_hook()) throw_value_error("ucxring DDP: a comm hook is registered already");
  if (armed_ || generation_ > 0)
    throw_value_error("ucxring DDP: register the comm hook before the first forward");
  const bool was_alone = alone();
  exchange_.set_hook(std::move(hook), chains);
  if (was_alone) build_buckets(reversed(tensors_.size()));
}

void Reducer::annotate(std::uint32_t batch_hash, std::uint32_t parameter_hash) {
  constexpr std::uint32_t kMask = (1U << static_cast<unsigned>(kHashBits)) - 1;
  const std::lock_guard lock(mutex_);
  note_.batch_hash = batch_hash & kMask;
  note_.parameter_hash = parameter_hash & kMask;
}

std::vector<StepTiming> Reducer::take_timings() {
  const std::lock_guard lock(figures_mutex_);
  std::vector<StepTiming> taken(std::make_move_iterator(timings_.begin()),
                                std::make_move_iterator(timings_.end()));
  timings_.clear();
  return taken;
}

std::uint64_t Reducer::steps() const {
  const std::lock_guard lock(figures_mutex_);
  return generation_;
}

std::int64_t Reducer::samples() const {
  const std::lock_guard lock(mutex_);
  return samples_;
}

std::vector<std::vector<std::size_t>> Reducer::buckets() const {
  const std::lock_guard lock(figures_mutex_);
  return members_of_buckets();
}

std::vector<std::vector<std::size_t>> Reducer::members_of_buckets() const {
  std::vector<std::vector<std::size_t>> members;
  for (const Bucket& bucket : buckets_) members.push_back(bucket.members());
  return members;
}

std::size_t Reducer::bucket_bytes() const {
  const std::lock_guard lock(figures_mutex_);
  return std::accumulate(buckets_.begin(), buckets_.end(), std::size_t{0},
                         [](std::size_t sum, const Bucket& bucket) { return sum + bucket.bytes(); });
}

void Reducer::start_synchronising() {
  synchronising_ = true;
  next_bucket_ = 0;
  landed_ = 0;
  flights_.clear();
  failure_.clear();
  incomplete_.assign(buckets_.size(), false);
  pending_.clear();
  for (const Bucket& bucket : buckets_) pending_.push_back(bucket.members().size());
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    Parameter& parameter = parameters_[index];
    parameter.fired = 0;
    parameter.ready = false;
  }
  if (!order_known_) order_.clear();
  if (!counting_) {
    for (std::size_t index = 0; index < parameters_.size(); ++index) {
      const bool unused = options_.static_graph ? parameters_[index].expected == 0
                                                : options_.find_unused_parameters && !reached_[index];
      if (unused) mark_ready(index);
    }
  }
  for (const std::size_t index : std::exchange(early_, {})) take(index);
}

void Reducer::gradient_arrived(std::size_t index) {
  const std::lock_guard lock(mutex_);
  parameters_[index].used = true;
  if (!running_) {
    if (!armed_) return;  // of a graph that did not come from the wrapper
    // No output that we could put a hook on led here.
    begin_backward();
    start_synchronising();
  }
  if (synchronising_) {
    take(index);
  } else {
    early_.push_back(index);
  }
}

void Reducer::take(std::size_t index) {
  Parameter& parameter = parameters_[index];
  ++parameter.fired;
  if (!order_known_) {
    if (parameter.fired > 1) std::erase(order_, index);
    order_.push_back(index);
  }
  if (counting_ || (options_.static_graph && parameter.fired < parameter.expected)) return;
  if (parameter.ready) {
    if (failure_.empty()) {
      failure_ = fmt::format(
          "the gradient of {} came again after it had been taken for complete: a reentrant checkpoint uses "
          "it several "
          "times or hides it from find_unused_parameters, or the graph of a static_graph changed. Use "
          "checkpoint(..., use_reentrant=False), or static_graph=True where the graph never changes",
          parameter.name);
    }
    return;
  }
  mark_ready(index);
}

void Reducer::mark_ready(std::size_t index) {
  Parameter& parameter = parameters_[index];
  parameter.ready = true;
  if (alone()) return;
  place_gradient(parameter);
  --pending_[parameter.bucket];
  start_complete_buckets();
}

void Reducer::place_gradient(Parameter& parameter) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  if (parameter.sparse) return;
  const Bucket& bucket = buckets_[parameter.bucket];
  if (gradient.defined() && gradient.is_sparse()) {
    failure_ = fmt::format(
        "the gradient of {} is sparse, which the wrapper was not told: it looks for Embedding and "
        "EmbeddingBag with "
        "sparse=True",
        parameter.name);
    bucket.put(parameter.member, at::Tensor(), 1.0);
    return;
  }
  bucket.put(parameter.member, gradient, exchange_.factor());
  if (options_.gradient_as_bucket_view && gradient.defined()) gradient = bucket.view(parameter.member);
}

void Reducer::start_complete_buckets() {
  while (landed_ < flights_.size() && Exchange::look(flights_[landed_])) ++landed_;
  while (next_bucket_ < buckets_.size() && pending_[next_bucket_] == 0) {
    if (exchange_.one_at_a_time() && landed_ < flights_.size()) return;
    start_bucket(next_bucket_++);
  }
}

void Reducer::start_bucket(std::size_t index) {
  Bucket& bucket = buckets_[index];
  note_.seconds = now_seconds() - std::max(last_finished_, generation_ == 0 ? timing_.forward : 0.0);
  if (!bucket.sparse() && !exchange_.has_hook()) {
    bucket.trailer().write(incomplete_[index] || !failure_.empty(), note_, exchange_.rank(),
                           exchange_.trailer_factor());
  }
  flights_.emplace_back();  // also when the start throws: flights and buckets go by one index
  flights_.back() = exchange_.start(bucket, index, buckets_.size(), tensors_);
}

}  // namespace ucxring::ddp
