#include "backend/ddp/bucket.hpp"

#include <ATen/Parallel.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace ucxring::ddp {
namespace {

/// A place in `flat` in the layout that autograd gives a gradient: the parameter's where it is dense, else
/// contiguous. Not a view in autograd's sense, so that `detach_` works on it, which LibTorch's optimizers
/// call.
at::Tensor place_like(const at::Tensor& flat, std::size_t offset, const at::Tensor& parameter) {
  const at::Tensor contiguous =
      at::empty_like(parameter, flat.options().device(at::kMeta), at::MemoryFormat::Contiguous);
  const auto strides = parameter.is_non_overlapping_and_dense() ? parameter.strides() : contiguous.strides();
  at::Tensor place = at::empty({0}, flat.options());
  place.set_(flat.storage(), flat.storage_offset() + static_cast<std::int64_t>(offset), parameter.sizes(),
             strides);
  return place;
}

/// Copies on one thread and between equal layouts by memcpy, which goes around the cache where torch's copy
/// goes through it.
void copy_between(const at::Tensor& to, const at::Tensor& from) {
  const bool alike = to.is_cpu() && from.is_cpu() && to.scalar_type() == from.scalar_type() &&
                     to.strides() == from.strides() && to.sizes() == from.sizes() &&
                     from.is_non_overlapping_and_dense() && !from.is_conj() && !from.is_neg();
  if (alike && at::get_num_threads() == 1) {
    std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes());
  } else {
    to.copy_(from);
  }
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
  const auto length = static_cast<std::int64_t>(elements * (complex ? 2 : 1));
  const std::int64_t trailing = Trailer::length(group.getSize(), notes);
  storage_ = allocate_for(group, length + trailing, first.options().dtype(real).requires_grad(false));
  trailer_ = Trailer(storage_.narrow(0, length, trailing), notes);
  flat_ = storage_.narrow(0, 0, length);
  if (complex) flat_ = at::view_as_complex(flat_.view({-1, 2}));
  for (std::size_t member = 0; member < members_.size(); ++member)
    views_.push_back(place_like(flat_, offsets_[member], parameters[members_[member]]));
}

bool Bucket::has_room_for_notes(const at::Tensor& parameter) {
  const at::ScalarType real = c10::toRealValueType(parameter.scalar_type());
  return real == at::kFloat || real == at::kDouble;
}

bool Bucket::holds(const at::Tensor& gradient, std::size_t member) const {
  const at::Tensor& place = views_[member];
  return gradient.layout() == at::kStrided && gradient.data_ptr() == place.data_ptr() &&
         gradient.sizes() == place.sizes() && gradient.strides() == place.strides();
}

void Bucket::put(std::size_t member, const at::Tensor& gradient, double factor) const {
  at::Tensor place = views_[member];
  if (!gradient.defined()) {
    place.zero_();
  } else if (holds(gradient, member)) {
    if (factor != 1.0) place.mul_(factor);
  } else if (factor == 1.0) {
    copy_between(place, gradient);
  } else {
    at::mul_out(place, gradient, at::scalar_tensor(factor, gradient.options()));
  }
}

void Bucket::zero() {
  if (!sparse_) storage_.zero_();
}

}  // namespace ucxring::ddp
