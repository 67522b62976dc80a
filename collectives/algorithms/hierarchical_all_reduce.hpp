// All-reduce over hosts: each host combines its ranks' vectors before anything goes over the network.
//
// H. Mikami, H. Suganuma, P. U-chupala, Y. Tanaka, Y. Kageyama: Massively distributed SGD: ImageNet/ResNet-50
// training in a flash. arXiv:1811.05233, 2018 (there as "2D-torus all-reduce").
#pragma once

#include "collectives/group_shape.hpp"
#include "collectives/schedule.hpp"

namespace ucxring {

/// With h hosts and at least L ranks on each: a reduce-scatter of L shards inside each host, an all-reduce of
/// each shard around a ring of its owners on all hosts, and an all-gather inside each host. 2h rounds. A host
/// sends, and receives, 2(h−1)/h · n bytes over the network, the least possible, however many ranks it has.
/// For large vectors.
[[nodiscard]] Schedule hierarchical_all_reduce(const GroupShape& shape);

}  // namespace ucxring
