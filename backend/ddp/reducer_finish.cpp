// The end of a backward: what is left is reduced, and the means become the gradients.
#include <c10/util/ScopeExit.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "backend/ddp/reducer.hpp"
#include "backend/errors.hpp"

namespace ucxring::ddp {
namespace {

constexpr std::size_t kTimingsKept = 1000;
constexpr std::size_t kNamesShown = 5;

}  // namespace

void Reducer::finish_backward() {
  const std::lock_guard lock(mutex_);
  if (!running_) return;
  if (!synchronising_) {
    running_ = false;
    early_.clear();
    return;
  }
  const auto reset = c10::make_scope_exit([this] { end_step(); });
  if (counting_) count_static_graph();
  const std::vector<std::size_t> missing = give_zeros_for_missing();
  finish_exchange(!missing.empty());
  for (const Bucket& bucket : buckets_) write_back(bucket);
  throw_if_incomplete(missing);
}

void Reducer::count_static_graph() {
  for (Parameter& parameter : parameters_) parameter.expected = parameter.fired;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (!parameters_[index].ready) mark_ready(index);
  }
}

std::vector<std::size_t> Reducer::give_zeros_for_missing() {
  std::vector<std::size_t> missing;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    Parameter& parameter = parameters_[index];
    if (parameter.ready) continue;
    if (options_.find_unused_parameters) {  // its output did not go into the loss
      mark_ready(index);
      continue;
    }
    missing.push_back(index);
    parameter.ready = true;
    if (!alone()) {
      if (!parameter.sparse) buckets_[parameter.bucket].view(parameter.member).zero_();
      incomplete_[parameter.bucket] = true;
      --pending_[parameter.bucket];
    }
  }
  start_complete_buckets();
  return missing;
}

void Reducer::finish_exchange(bool incomplete) {
  timing_.computed = now_seconds();
  const auto start_small_things = [&] {
    if (finds_unused()) start_used_map();
    if (exchange_.has_hook() && exchange_.world_size() > 1) start_status(incomplete);
  };
  // Where callbacks of a hook start collectives, nothing else may be on its way.
  if (!exchange_.one_at_a_time()) start_small_things();
  wait_for_buckets();
  if (exchange_.one_at_a_time()) start_small_things();
  if (status_work_) std::exchange(status_work_, nullptr)->wait();
  finish_used_map();
}

void Reducer::start_status(bool incomplete) {
  const int world_size = exchange_.world_size();
  if (!status_numbers_.defined()) {
    const auto options = tensors_.front().options().dtype(at::kFloat).requires_grad(false);
    status_numbers_ = at::zeros({Trailer::length(world_size, true)}, options);
    status_ = Trailer(status_numbers_, true);
  }
  status_.write(incomplete || !failure_.empty(), note_, exchange_.rank(), 1.0 / world_size);
  status_work_ = exchange_.start_sum(status_numbers_);
}

void Reducer::start_used_map() {
  at::Tensor used = at::empty({static_cast<std::int64_t>(parameters_.size())}, at::kInt);
  auto* const flags = used.data_ptr<std::int32_t>();
  for (std::size_t index = 0; index < parameters_.size(); ++index)
    flags[index] = parameters_[index].used ? 1 : 0;
  used_map_ = used.to(tensors_.front().device());
  if (exchange_.world_size() > 1) used_work_ = exchange_.start_sum(used_map_);
}

void Reducer::finish_used_map() {
  if (!used_map_.defined()) return;
  if (used_work_) std::exchange(used_work_, nullptr)->wait();
  const at::Tensor used = std::exchange(used_map_, at::Tensor()).cpu();
  const auto* const counts = used.data_ptr<std::int32_t>();
  for (std::size_t index = 0; index < parameters_.size(); ++index)
    parameters_[index].used_anywhere = counts[index] > 0;
}

void Reducer::wait_for_buckets() {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    if (index == next_bucket_) start_bucket(next_bucket_++);
    exchange_.finish(flights_[index], buckets_[index]);
  }
}

void Reducer::write_back(const Bucket& bucket) {
  const at::NoGradGuard no_grad;
  for (std::size_t member = 0; member < bucket.members().size(); ++member) {
    Parameter& parameter = parameters_[bucket.members()[member]];
    if (!parameter.used_anywhere) continue;  // its gradient stays as it is
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (bucket.sparse()) {
      gradient = flights_[parameter.bucket].sparse_gradient;
      continue;
    }
    const at::Tensor& mean = bucket.view(member);
    if (options_.gradient_as_bucket_view) {
      if (!gradient.defined() || !bucket.holds(gradient, member)) gradient = mean;
    } else if (gradient.defined()) {
      gradient.copy_(mean);
    } else {
      gradient = mean.clone();
    }
  }
}

std::string Reducer::name_some(std::span<const std::size_t> indices) const {
  std::vector<std::string> names;
  for (const std::size_t index : indices.first(std::min(indices.size(), kNamesShown)))
    names.push_back(parameters_[index].name);
  const std::string more =
      indices.size() > kNamesShown ? fmt::format(" and {} more", indices.size() - kNamesShown) : "";
  return fmt::format("{}{}", fmt::join(names, ", "), more);
}

void Reducer::throw_if_incomplete(std::span<const std::size_t> missing) const {
  const std::string rank =
      fmt::format("ucxring DDP, rank {} of {}: ", exchange_.rank(), exchange_.world_size());
  if (!failure_.empty()) throw_runtime_error(rank + failure_ + ".");
  if (!missing.empty()) {
    const char* const replaced =
        missing.size() == parameters_.size()
            ? " Or the parameters were replaced or converted after wrapping (load_state_dict(assign=True), "
              "double()): wrap again."
            : "";
    throw_runtime_error(fmt::format(
        "{}backward gave no gradient to {}, so the step must not be taken. If some parameters are meant to "
        "be unused, "
        "pass find_unused_parameters=True; else make sure that every output of forward goes into the loss.{}",
        rank, name_some(missing), replaced));
  }
  const auto check = [&](const Trailer& trailer, std::span<const std::size_t> members) {
    const int ranks = trailer.missing_ranks(exchange_.world_size());
    if (ranks == 0) return;
    throw_runtime_error(
        fmt::format("{}on {} other rank(s) backward gave no gradient to some of {}, so the step must not be "
                    "taken; those ranks "
                    "say which. If that is meant, pass find_unused_parameters=True.",
                    rank, ranks, name_some(members)));
  };
  if (exchange_.has_hook()) {
    std::vector<std::size_t> all(parameters_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (exchange_.world_size() > 1) check(status_, all);
    return;
  }
  for (const Bucket& bucket : buckets_) {
    if (!bucket.sparse()) check(bucket.trailer(), bucket.members());
  }
}

void Reducer::end_step() {
  if (!order_known_) {
    // What did not come in the first step is expected last.
    std::vector<bool> came(parameters_.size(), false);
    for (const std::size_t index : order_) came[index] = true;
    for (std::size_t index = parameters_.size(); index-- > 0;) {
      if (!came[index]) order_.push_back(index);
    }
    order_known_ = true;
  }
  timing_.finished = now_seconds();
  timing_.step = generation_;
  timing_.buckets.clear();
  for (const Exchange::Flight& flight : flights_) timing_.buckets.push_back(flight.timing);
  timing_.ranks.clear();
  if (exchange_.has_hook()) {
    if (status_numbers_.defined()) timing_.ranks = status_.notes(exchange_.world_size());
  } else if (!buckets_.empty() && flights_.size() == buckets_.size()) {
    timing_.ranks = buckets_[noted_bucket_].trailer().notes(exchange_.world_size());
  }
  {
    const std::lock_guard figures_lock(figures_mutex_);
    ++generation_;
    timings_.push_back(timing_);
    if (timings_.size() > kTimingsKept) timings_.pop_front();
  }
  last_finished_ = timing_.finished;
  flights_.clear();
  note_ = {};
  samples_ = 0;
  used_map_ = at::Tensor();
  used_work_.reset();
  status_work_.reset();
  for (Parameter& parameter : parameters_) parameter.used = false;
  std::fill(reached_.begin(), reached_.end(), false);
  running_ = synchronising_ = armed_ = counting_ = false;
}

void Reducer::abandon_step() {
  if (synchronising_) {
    // An exception ended the backward. The others wait for the rest of the buckets: they get them, marked.
    if (failure_.empty()) failure_ = "an exception ended the backward before";
    const bool counting = counting_;
    const bool order_known = order_known_;
    try {
      give_zeros_for_missing();
      finish_exchange(true);
    } catch (const std::exception& error) {
      TORCH_WARN("ucxring DDP, rank ", exchange_.rank(),
                 ": the step that an exception ended could not be completed: ", error.what());
    }
    end_step();
    counting_ = counting;
    order_known_ = order_known;
  }
  running_ = false;
  early_.clear();
}

void Reducer::take_part_without_data() {
  const std::lock_guard lock(mutex_);
  if (running_) abandon_step();
  timing_.forward = timing_.backward = now_seconds();
  rebuild_buckets();
  start_synchronising();
  const auto reset = c10::make_scope_exit([this] { end_step(); });
  for (std::size_t index = 0; index < buckets_.size(); ++index) buckets_[index].zero();
  for (Parameter& parameter : parameters_) {
    parameter.ready = true;
    parameter.used = false;
  }
  std::fill(pending_.begin(), pending_.end(), std::size_t{0});
  start_complete_buckets();
  finish_exchange(false);
  for (const Bucket& bucket : buckets_) write_back(bucket);
}

}  // namespace ucxring::ddp
