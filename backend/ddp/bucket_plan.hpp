// Which parameters' gradients are reduced together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ucxring::ddp {

/// What the assignment needs to know of one parameter.
struct GradientShape {
  std::size_t bytes = 0;
  std::int64_t kind = 0;  ///< gradients of unequal kinds (dtype, device) never share a bucket
  bool alone = false;     ///< has a bucket of its own (sparse gradients)
};

/// A bucket is full when it holds at least so many bytes.
struct BucketLimits {
  std::size_t first = std::size_t{1} << 20;  ///< small, so that communication starts early in backward
  std::size_t others = std::size_t{25} << 20;
};

/// Fills buckets with the parameters in the given order, which is the order in which backward is expected to
/// give their gradients. Returns the parameters of each bucket; buckets lie in the order in which they are
/// expected to be complete. A pure function: the same arguments give the same buckets on every rank.
/// Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020.
[[nodiscard]] std::vector<std::vector<std::size_t>> plan_buckets(std::span<const GradientShape> shapes,
                                                                 std::span<const std::size_t> order,
                                                                 const BucketLimits& limits);

}  // namespace ucxring::ddp
