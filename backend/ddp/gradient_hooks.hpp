// Being told when autograd has accumulated a gradient.
#pragma once

#include <ATen/ATen.h>

#include <torch/csrc/autograd/variable.h>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "backend/ddp/graph_walk.hpp"

namespace ucxring::ddp {

/// Calls `arrived(i)` from autograd's threads each time the gradient of parameter i has been added to its
/// `grad`, for as long as this object lives. It keeps the nodes alive that the hooks are on.
class GradientHooks {
 public:
  GradientHooks(std::span<const at::Tensor> parameters, const std::function<void(std::size_t)>& arrived);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  [[nodiscard]] const AccumulatorIndex& accumulators() const noexcept { return index_; }

 private:
  using NodePtr = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));
  struct Hook {
    NodePtr node;
    std::uintptr_t key;
  };

  std::vector<Hook> hooks_;
  AccumulatorIndex index_;
};

}  // namespace ucxring::ddp
