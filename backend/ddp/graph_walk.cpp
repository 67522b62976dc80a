#include "backend/ddp/graph_walk.hpp"

#include <torch/csrc/autograd/variable.h>
#include <unordered_set>

namespace ucxring::ddp {

void mark_reached(std::span<const at::Tensor> outputs, const AccumulatorIndex& accumulators,
                  std::vector<bool>& reached) {
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> left;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) left.push_back(node);
  };
  for (const at::Tensor& output : outputs) {
    if (output.requires_grad()) visit(torch::autograd::impl::gradient_edge(output).function.get());
  }
  while (!left.empty()) {
    const torch::autograd::Node* const node = left.back();
    left.pop_back();
    const auto found = accumulators.find(node);
    if (found != accumulators.end()) reached[found->second] = true;
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
}

}  // namespace ucxring::ddp
