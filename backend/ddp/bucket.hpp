// The memory of gradients that are reduced together.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <optional>
#include <span>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "backend/ddp/trailer.hpp"

namespace ucxring::ddp {

/// Gradients of one dtype and device that lie one after the other, and behind them a `Trailer` (with notes
/// where `notes` asks for them). It is reduced with the gradients,
/// which costs nothing, so every rank learns of it without a collective of its own. A bucket of one sparse
/// gradient has no memory and no trailer.
class Bucket {
 public:
  /// Memory comes from `group`'s backend where it allocates tensors. `parameters` are those of the whole
  /// module, `members` the indices of the bucket's.
  Bucket(std::vector<std::size_t> members, std::span<const at::Tensor> parameters, bool sparse, bool notes,
         c10d::ProcessGroup& group);

  /// Whether notes are exact in a bucket of this parameter's dtype.
  [[nodiscard]] static bool has_room_for_notes(const at::Tensor& parameter);

  [[nodiscard]] const std::vector<std::size_t>& members() const noexcept { return members_; }
  [[nodiscard]] bool sparse() const noexcept { return sparse_; }
  /// What is reduced: gradients and trailer. Real numbers also for complex gradients.
  [[nodiscard]] const at::Tensor& storage() const noexcept { return storage_; }
  /// The gradients, one-dimensional, in their dtype.
  [[nodiscard]] const at::Tensor& flat() const noexcept { return flat_; }
  /// The place of one member's gradient, in the parameter's shape.
  [[nodiscard]] const at::Tensor& view(std::size_t member) const { return views_[member]; }
  [[nodiscard]] std::size_t offset(std::size_t member) const { return offsets_[member]; }
  [[nodiscard]] std::size_t bytes() const { return sparse_ ? 0 : flat_.nbytes(); }
  /// Whether the tensor lies in this bucket's place for `member`.
  [[nodiscard]] bool holds(const at::Tensor& gradient, std::size_t member) const;

  /// Puts a member's dense gradient, times `factor`, into its place; zeros where there is none.
  void put(std::size_t member, const at::Tensor& gradient, double factor) const;
  /// Zeros all gradients and the trailer.
  void zero();
  [[nodiscard]] Trailer& trailer() noexcept { return trailer_; }
  [[nodiscard]] const Trailer& trailer() const noexcept { return trailer_; }

 private:
  std::vector<std::size_t> members_;
  std::vector<std::size_t> offsets_;
  bool sparse_;
  at::Tensor storage_;
  at::Tensor flat_;
  Trailer trailer_;
  std::vector<at::Tensor> views_;
};

/// A zeroed one-dimensional tensor from the backend of `group` for this device, where it allocates tensors
/// (registered memory with ucxring), else from torch.
[[nodiscard]] at::Tensor allocate_for(c10d::ProcessGroup& group, std::int64_t elements,
                                      const at::TensorOptions& options);

}  // namespace ucxring::ddp
