// Which samples each rank trains on, for LibTorch's data loaders.
#pragma once

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ucxring::ddp {

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;
};

/// Shares out `size` samples among ranks, equally many to each, another order in every epoch: the same
/// choice, index for index, as Python's torch.utils.data.DistributedSampler. What cannot be shared out evenly
/// is made up by samples that two ranks see (or left out, with `drop_last`). Call `set_epoch` before each
/// epoch, the same on all ranks. For `torch::data::make_data_loader`, or by hand with `indices`. Not
/// thread-safe.
class DistributedSampler final : public torch::data::samplers::Sampler<> {
 public:
  /// Throws ValueError unless 0 <= rank < world_size and there are samples.
  DistributedSampler(std::size_t size, int rank, int world_size, const SamplerOptions& options = {});

  void set_epoch(std::uint64_t epoch);
  /// Samples of this rank in an epoch.
  [[nodiscard]] std::size_t size() const noexcept { return indices_.size(); }
  /// All of them, in order.
  [[nodiscard]] const std::vector<std::size_t>& indices() const noexcept { return indices_; }

  void reset(std::optional<std::size_t> new_size) override;
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void choose();

  std::size_t total_;
  std::size_t rank_;
  std::size_t world_size_;
  SamplerOptions options_;
  std::uint64_t epoch_ = 0;
  std::vector<std::size_t> indices_;
  std::size_t next_ = 0;
};

}  // namespace ucxring::ddp
