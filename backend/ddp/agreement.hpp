// What ranks make equal before they train together.
#pragma once

#include <ATen/ATen.h>

#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace ucxring::ddp {

/// Throws ValueError, the same on every rank, unless all ranks have the same parameters: names, shapes,
/// dtypes and whether they require gradients. Names the first one that differs and what each side has.
/// Collective.
void check_same_structure(c10d::ProcessGroup& group, std::span<const at::Tensor> parameters,
                          std::span<const std::string> names);

/// Gives every rank the values of `root`'s tensors, of any dtype and layout, in as few broadcasts as
/// possible. Does not raise the tensors' versions: a graph that saved them can still be run backward.
/// Collective.
void broadcast_values(c10d::ProcessGroup& group, std::span<const at::Tensor> tensors, int root);

}  // namespace ucxring::ddp
