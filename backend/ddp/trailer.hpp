// What ranks tell each other beside the gradients.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "backend/ddp/timings.hpp"

namespace ucxring::ddp {

/// Numbers of which every rank gets the mean over ranks: the count of ranks that miss a gradient, and where
/// there is room for exact numbers a note of each rank. A view of memory that others reduce.
class Trailer {
 public:
  Trailer() = default;
  /// `numbers` are real, as many as `length` says.
  Trailer(at::Tensor numbers, bool notes) : numbers_(std::move(numbers)), notes_(notes) {}
  [[nodiscard]] static std::int64_t length(int world_size, bool notes) {
    return 1 + (notes ? static_cast<std::int64_t>(kNumbersPerNote) * world_size : 0);
  }

  /// Writes what this rank has to say. `share` is what a number must be multiplied with so that the reduction
  /// gives its mean over ranks: 1 where the backend averages.
  void write(bool missing, const RankNote& note, int rank, double share);
  /// Of the reduced numbers: how many ranks miss gradients.
  [[nodiscard]] int missing_ranks(int world_size) const;
  /// Of the reduced numbers; empty when there are no notes.
  [[nodiscard]] std::vector<RankNote> notes(int world_size) const;

 private:
  at::Tensor numbers_;
  bool notes_ = false;
};

}  // namespace ucxring::ddp
