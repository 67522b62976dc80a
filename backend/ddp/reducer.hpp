// Averages gradients over ranks while backward is still computing others.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <vector>

#include "backend/ddp/bucket.hpp"
#include "backend/ddp/bucket_plan.hpp"
#include "backend/ddp/exchange.hpp"
#include "backend/ddp/gradient_hooks.hpp"
#include "backend/ddp/timings.hpp"

namespace ucxring::ddp {

struct ReducerOptions {
  BucketLimits limits;
  bool find_unused_parameters = false;
  /// Gradients are views into the buckets: no copy back, and in registered memory the ranks of a host reduce
  /// them in place.
  bool gradient_as_bucket_view = true;
  bool static_graph = false;
};

/// The gradients of one module on one rank. A step is: `begin_forward`, the module's forward, `end_forward`,
/// backward; when backward returns, each gradient is the mean over all ranks, the same bits on each. Several
/// forwards may come before one backward; forwards that do not synchronise only accumulate.
///
/// Buckets are reduced in one order on all ranks, each as soon as it and those before it are complete. The
/// first synchronised backward notes in what order gradients come; the next forward rebuilds the buckets by
/// rank 0's order, once. Thread-safe. Never call it with Python's GIL held: hooks take it.
/// Errors: whatever the group throws; a parameter without a gradient is an error at the end of backward, on
/// all ranks. Source: Li et al., VLDB 2020.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// `parameters` require gradients and `names` are theirs; `sparse[i]`: its gradient is sparse. All ranks
  /// pass the same.
  static std::shared_ptr<Reducer> create(std::vector<at::Tensor> parameters, std::vector<std::string> names,
                                         const std::vector<bool>& sparse,
                                         c10::intrusive_ptr<c10d::ProcessGroup> group,
                                         const ReducerOptions& options);

  /// Before a forward. Collective once, after the first synchronised step, when `synchronise` is true.
  void begin_forward(bool synchronise);
  /// After a forward of `samples` samples that autograd recorded: whether the backward from `outputs` will
  /// average.
  void end_forward(std::span<const at::Tensor> outputs, bool synchronise, std::int64_t samples = 0);
  /// Of forwards that did not synchronise and whose gradients have come since the last mean.
  [[nodiscard]] std::int64_t samples() const;

  /// This rank's weight in the next mean (see `Exchange::set_weight`); nothing: equal weights.
  void set_weight(std::optional<double> weight);
  /// Replaces the all-reduce of every bucket; once, before the first backward.
  /// `chains`: callbacks of its futures may start collectives; buckets are then reduced one after the other.
  void set_comm_hook(std::unique_ptr<c10d::CommHookInterface> hook, bool chains);
  /// Sent along in the step's last bucket; kHashBits bits each.
  void annotate(std::uint32_t batch_hash, std::uint32_t parameter_hash);
  /// Takes part in one step of the other ranks with zeros: for a rank that has no data left.
  void take_part_without_data();

  /// Of the steps since the last call, oldest first; the last thousand at most.
  [[nodiscard]] std::vector<StepTiming> take_timings();
  /// How many steps have been averaged.
  [[nodiscard]] std::uint64_t steps() const;
  /// The parameters of each bucket, in the order of reduction.
  [[nodiscard]] std::vector<std::vector<std::size_t>> buckets() const;
  /// Bytes of the buckets' memory.
  [[nodiscard]] std::size_t bucket_bytes() const;

 private:
  struct Forward {
    bool synchronise;
    std::uint64_t generation;
    std::int64_t samples;  // that are still to be counted
  };
  struct Parameter {
    at::Tensor tensor;
    std::string name;
    bool sparse = false;
    std::size_t bucket = 0;
    std::size_t member = 0;     // its place there
    int fired = 0;              // gradients that came in this backward
    int expected = 1;           // as many come in each backward of a static graph
    bool ready = false;         // its gradient is in the bucket
    bool used = false;          // by a backward since the last mean
    bool used_anywhere = true;  // on any rank, in the last step
  };

  Reducer(std::vector<at::Tensor> parameters, std::vector<std::string> names, const std::vector<bool>& sparse,
          c10::intrusive_ptr<c10d::ProcessGroup> group, const ReducerOptions& options);
  void watch_gradients();

  [[nodiscard]] std::vector<std::vector<std::size_t>> members_of_buckets() const;
  void build_buckets(std::span<const std::size_t> order);
  void rebuild_buckets();
  void move_gradients_into_buckets();

  [[nodiscard]] bool learns() const;
  [[nodiscard]] bool backward_passes_by() const;
  void backward_reaches(Forward& forward);
  void begin_backward();
  void start_synchronising();
  void gradient_arrived(std::size_t index);
  void take(std::size_t index);
  void mark_ready(std::size_t index);
  void place_gradient(Parameter& parameter);
  void start_complete_buckets();
  void start_bucket(std::size_t index);

  void finish_backward();
  void count_static_graph();
  std::vector<std::size_t> give_zeros_for_missing();
  void finish_exchange(bool incomplete);
  void start_used_map();
  void finish_used_map();
  void start_status(bool incomplete);
  void wait_for_buckets();
  void write_back(const Bucket& bucket);
  void throw_if_incomplete(std::span<const std::size_t> missing) const;
  void end_step();
  void abandon_step();
  [[nodiscard]] std::string name_some(std::span<const std::size_t> indices) const;
  /// Nothing is exchanged: one rank and no hook that wants to see the gradients.
  [[nodiscard]] bool alone() const noexcept { return exchange_.world_size() == 1 && !exchange_.has_hook(); }
  [[nodiscard]] bool finds_unused() const noexcept { return options_.find_unused_parameters || counting_; }

  mutable std::mutex mutex_;
  /// Of `generation_`, `timings_` and `buckets_`, for those who read them while a comm hook runs under
  /// `mutex_`.
  mutable std::mutex figures_mutex_;
  const ReducerOptions options_;
  std::vector<at::Tensor> tensors_;  // of the parameters
  std::vector<Parameter> parameters_;
  Exchange exchange_;
  std::vector<Bucket> buckets_;
  std::size_t noted_bucket_ = 0;  // whose trailer carries notes, if any does
  std::unique_ptr<GradientHooks> hooks_;

  // From forward to the end of backward.
  bool armed_ = false;            // a forward wants its gradients averaged
  std::vector<bool> reached_;     // by the graphs of those forwards
  std::uint64_t generation_ = 0;  // steps that have been averaged
  std::int64_t samples_ = 0;      // see samples()
  // During a backward.
  bool running_ = false;
  bool synchronising_ = false;
  std::vector<std::size_t> early_;    // gradients that came before the backward was known to average
  std::vector<std::size_t> pending_;  // by bucket: gradients still to come
  std::vector<bool> incomplete_;      // by bucket: this rank misses a gradient of it
  std::size_t next_bucket_ = 0;       // the first that is not started
  std::vector<Exchange::Flight> flights_;
  std::size_t landed_ = 0;  // flights that were seen to be done
  std::string failure_;     // found in this backward
  at::Tensor used_map_;
  c10::intrusive_ptr<c10d::Work> used_work_;
  at::Tensor status_numbers_;  // with a comm hook: what the buckets' trailers say without one
  Trailer status_;
  c10::intrusive_ptr<c10d::Work> status_work_;
  // Over steps.
  bool counting_;  // static graph: the first step counts
  bool order_known_ = false;
  bool rebuilt_ = false;
  std::vector<std::size_t> order_;  // in which gradients came in the first step
  RankNote note_;
  StepTiming timing_;
  double last_finished_ = 0;
  std::deque<StepTiming> timings_;
};

}  // namespace ucxring::ddp
