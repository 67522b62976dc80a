#include "backend/ddp/distributed_sampler.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>

#include "backend/errors.hpp"

namespace ucxring::ddp {

DistributedSampler::DistributedSampler(std::size_t size, int rank, int world_size,
                                       const SamplerOptions& options)
    : total_(size),
      rank_(static_cast<std::size_t>(rank)),
      world_size_(static_cast<std::size_t>(world_size)),
      options_(options) {
  if (world_size < 1 || rank < 0 || rank >= world_size)
    throw_value_error(fmt::format("ucxring: a sampler for rank {} of {} ranks", rank, world_size));
  if (size == 0) throw_value_error("ucxring: a sampler for no samples");
  choose();
}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  choose();
}

void DistributedSampler::choose() {
  const auto count = static_cast<std::int64_t>(total_);
  const auto generator = at::detail::createCPUGenerator(options_.seed + epoch_);
  const at::Tensor order =
      options_.shuffle ? at::randperm(count, generator, at::kLong) : at::arange(count, at::kLong);
  const auto* const place = order.const_data_ptr<std::int64_t>();
  const std::size_t share =
      options_.drop_last ? total_ / world_size_ : (total_ + world_size_ - 1) / world_size_;
  indices_.clear();
  for (std::size_t index = rank_; index < share * world_size_; index += world_size_)
    indices_.push_back(static_cast<std::size_t>(place[index % total_]));
  next_ = 0;
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  if (new_size) total_ = *new_size;
  choose();
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  if (next_ >= indices_.size()) return std::nullopt;
  const auto first = indices_.begin() + static_cast<std::ptrdiff_t>(next_);
  next_ = std::min(next_ + batch_size, indices_.size());
  return std::vector<std::size_t>(first, indices_.begin() + static_cast<std::ptrdiff_t>(next_));
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", at::tensor(static_cast<std::int64_t>(epoch_), at::kLong), /*is_buffer=*/true);
  archive.write("next", at::tensor(static_cast<std::int64_t>(next_), at::kLong), /*is_buffer=*/true);
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  at::Tensor value = at::empty({1}, at::kLong);
  archive.read("epoch", value, /*is_buffer=*/true);
  set_epoch(static_cast<std::uint64_t>(value.item<std::int64_t>()));
  archive.read("next", value, /*is_buffer=*/true);
  next_ = static_cast<std::size_t>(value.item<std::int64_t>());
}

}  // namespace ucxring::ddp
