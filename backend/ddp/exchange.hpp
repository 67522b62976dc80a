// How the gradients of one bucket become the mean over all ranks.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <span>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <vector>

#include "backend/ddp/bucket.hpp"
#include "backend/ddp/timings.hpp"

namespace ucxring::ddp {

/// Starts and ends the reductions of buckets over one group, by all-reduce or by a comm hook. All ranks start
/// the same buckets in the same order. Not thread-safe.
class Exchange {
 public:
  Exchange(c10::intrusive_ptr<c10d::ProcessGroup> group, c10::Device device);

  [[nodiscard]] c10d::ProcessGroup& group() const noexcept { return *group_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int world_size() const noexcept { return world_size_; }
  [[nodiscard]] bool has_hook() const noexcept { return hook_ != nullptr; }
  /// `chains`: callbacks of the hook's futures may start collectives.
  void set_hook(std::unique_ptr<c10d::CommHookInterface> hook, bool chains) {
    hook_ = std::move(hook);
    chains_ = chains;
  }
  /// Whether a bucket may be started only when the one before it is done: callbacks of two buckets would else
  /// start their collectives in an order that differs between ranks.
  [[nodiscard]] bool one_at_a_time() const noexcept { return hook_ != nullptr && chains_; }

  /// This rank's weight in the mean of the next step, instead of one over the world size: either every rank
  /// sets one or none does. The weights of all ranks are meant to add up to 1.
  void set_weight(double weight) noexcept {
    weight_ = weight;
    weighted_ = true;
  }
  /// Back to equal weights.
  void clear_weight() noexcept { weighted_ = false; }

  /// What local gradients must be multiplied with before their bucket is started; 1 where the reduction
  /// itself averages.
  [[nodiscard]] double factor() const noexcept;
  /// What a number must be multiplied with so that the reduction gives its mean over ranks.
  [[nodiscard]] double trailer_factor() const noexcept { return averages() ? 1.0 : 1.0 / world_size_; }

  /// A bucket on its way.
  struct Flight {
    c10::intrusive_ptr<c10d::Work> work;
    c10::intrusive_ptr<c10::ivalue::Future> future;  // of a comm hook
    at::Tensor sparse_gradient;
    BucketTiming timing;
  };
  /// Starts bucket `index` of `count`. `parameters` are those of the module; the gradient of a sparse
  /// bucket's parameter is replaced by the mean when the flight ends.
  Flight start(Bucket& bucket, std::size_t index, std::size_t count, std::span<const at::Tensor> parameters);
  /// Waits until the mean is in the bucket, or in `flight.sparse_gradient`; throws when the reduction failed.
  void finish(Flight& flight, Bucket& bucket);
  /// Notes the time if the bucket is done; for figures.
  static bool look(Flight& flight);
  /// Sum over ranks, in place; for small things beside the buckets.
  c10::intrusive_ptr<c10d::Work> start_sum(const at::Tensor& tensor);

 private:
  /// This rank's weight in the mean.
  [[nodiscard]] double share() const noexcept { return weighted_ ? weight_ : 1.0 / world_size_; }
  /// Whether the reduction itself divides: the backend can and all ranks weigh the same.
  [[nodiscard]] bool averages() const noexcept { return has_average_ && !weighted_; }
  Flight start_hook(const Bucket& bucket, const at::Tensor& buffer, std::size_t index, std::size_t count,
                    std::span<const at::Tensor> parameters);
  Flight start_sparse(const Bucket& bucket, std::size_t index, std::size_t count,
                      std::span<const at::Tensor> parameters);

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const int rank_;
  const int world_size_;
  bool has_average_;
  bool weighted_ = false;
  double weight_ = 1.0;
  std::unique_ptr<c10d::CommHookInterface> hook_;
  bool chains_ = false;
};

}  // namespace ucxring::ddp
