// Which parameters a backward pass will reach.
#pragma once

#include <ATen/ATen.h>

#include <torch/csrc/autograd/function.h>
#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

namespace ucxring::ddp {

/// The index of the parameter that each AccumulateGrad node serves.
using AccumulatorIndex = std::unordered_map<const torch::autograd::Node*, std::size_t>;

/// Sets `reached[i]` for each parameter that a backward from `outputs` would give a gradient to. What a
/// reentrant checkpoint hides is not seen.
void mark_reached(std::span<const at::Tensor> outputs, const AccumulatorIndex& accumulators,
                  std::vector<bool>& reached);

}  // namespace ucxring::ddp
