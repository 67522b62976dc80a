// The double binary tree: logarithmic latency at nearly full bandwidth.
//
// P. Sanders, J. Speck, J. L. Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan.
// Parallel Computing 35(12), 2009. The tree itself is the one of NCCL (src/graph/trees.cc).
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// All-reduce over two binary trees, each of which carries one half of the vector up to its root and down
/// again. An inner rank of one tree is a leaf of the other, so that all ranks share the work. 2⌈log₂ p⌉
/// rounds; a rank sends at most 2n bytes. Many lanes make it a pipeline. For vectors of medium size among
/// many ranks.
[[nodiscard]] Schedule tree_all_reduce(const GroupShape& shape);

}  // namespace ucxring
