#include "backend/ddp/bucket.hpp"

#include <c10/util/accumulate.h>

#include <cmath>
#include <cstdint>
#include <utility>

namespace ucxring::ddp {
namespace {

/// The layout that autograd gives a gradient: the parameter's where it is dense, else contiguous.
at::Tensor view_like(const at::Tensor& flat, std::size_t offset, const at::Tensor& parameter) {
  const auto start = static_cast<std::int64_t>(offset);
  if (parameter.is_non_overlapping_and_dense())
    return flat.as_strided(parameter.sizes(), parameter.strides(), flat.storage_offset() + start);
  return flat.narrow(0, start, parameter.numel()).view(parameter.sizes());
}

}  // namespace

at::Tensor allocate_for(c10d::ProcessGroup& group, std::int64_t elements, const at::TensorOptions& options) {
  try {
    const auto backend = group.getBackend(options.device().type());
    if (backend->supportsTensorAlloc(options.device().index()))
      return backend->allocateTensor(elements, options).zero_();
  } catch (const c10::OutOfMemoryError& error) {
    TORCH_WARN("ucxring DDP: gradients lie in ordinary memory, which costs one more copy inside a host: ",
               error.what_without_backtrace());
  }
  return at::zeros({elements}, options);
}

Bucket::Bucket(std::vector<std::size_t> members, std::span<const at::Tensor> parameters, bool sparse,
               bool notes, c10d::ProcessGroup& group)
    : members_(std::move(members)), sparse_(sparse) {
  if (sparse_) return;
  const at::Tensor& first = parameters[members_.front()];
  std::size_t elements = 0;
  for (const std::size_t index : members_) {
    offsets_.push_back(elements);
    elements += static_cast<std::size_t>(parameters[index].numel());
  }
  const bool complex = first.is_complex();
  const at::ScalarType real = c10::toRealValueType(first.scalar_type());
  notes_ = notes && (real == at::kFloat || real == at::kDouble);
  const auto length = static_cast<std::int64_t>(elements * (complex ? 2 : 1));
  const auto trailer = static_cast<std::int64_t>(
      1 + (notes_ ? kNumbersPerNote * static_cast<std::size_t>(group.getSize()) : 0));
  storage_ = allocate_for(group, length + trailer, first.options().dtype(real).requires_grad(false));
  trailer_ = storage_.narrow(0, length, trailer);
  flat_ = storage_.narrow(0, 0, length);
  if (complex) flat_ = at::view_as_complex(flat_.view({-1, 2}));
  for (std::size_t member = 0; member < members_.size(); ++member)
    views_.push_back(view_like(flat_, offsets_[member], parameters[members_[member]]));
}

bool Bucket::holds(const at::Tensor& gradient, std::size_t member) const {
  const at::Tensor& place = views_[member];
  return gradient.layout() == at::kStrided && gradient.data_ptr() == place.data_ptr() &&
         gradient.sizes() == place.sizes() && gradient.strides() == place.strides();
}

void Bucket::zero() {
  if (!sparse_) storage_.zero_();
}

void Bucket::write_trailer(bool missing, const RankNote& note, int rank, double share) {
  if (!notes_) {
    trailer_.fill_(missing ? share : 0.0);
    return;
  }
  at::Tensor numbers = at::zeros({trailer_.numel()}, at::kDouble);
  auto* const number = numbers.data_ptr<double>();
  number[0] = missing ? share : 0.0;
  double* const own = number + 1 + kNumbersPerNote * static_cast<std::size_t>(rank);
  own[0] = note.seconds * share;
  own[1] = static_cast<double>(note.batch_hash) * share;
  own[2] = static_cast<double>(note.parameter_hash) * share;
  trailer_.copy_(numbers);
}

int Bucket::missing_ranks(int world_size) const {
  if (sparse_) return 0;
  return static_cast<int>(std::ceil(trailer_.select(0, 0).item<double>() * world_size - 0.01));
}

std::vector<RankNote> Bucket::notes(int world_size) const {
  if (!notes_) return {};
  const at::Tensor numbers = trailer_.to(at::kCPU, at::kDouble);
  const auto* number = numbers.data_ptr<double>() + 1;
  std::vector<RankNote> notes(static_cast<std::size_t>(world_size));
  for (RankNote& note : notes) {
    note.seconds = number[0] * world_size;
    // A sum of one number and zeros, divided by the world size: rounded twice at most, and whole before that.
    note.batch_hash = static_cast<std::uint32_t>(std::lround(number[1] * world_size));
    note.parameter_hash = static_cast<std::uint32_t>(std::lround(number[2] * world_size));
    number += kNumbersPerNote;
  }
  return notes;
}

}  // namespace ucxring::ddp
