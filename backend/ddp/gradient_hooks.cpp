#include "backend/ddp/gradient_hooks.hpp"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <memory>

namespace ucxring::ddp {

GradientHooks::GradientHooks(std::span<const at::Tensor> parameters,
                             const std::function<void(std::size_t)>& arrived) {
  using Tensors = std::vector<torch::autograd::Variable>;
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    NodePtr node = torch::autograd::impl::grad_accumulator(parameters[index]);
    index_.emplace(node.get(), index);
    auto hook = std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [arrived, index](const Tensors& outputs, const Tensors&) {
          arrived(index);
          return outputs;
        });
    const std::uintptr_t key = node->add_post_hook(std::move(hook));
    hooks_.push_back({std::move(node), key});
  }
}

GradientHooks::~GradientHooks() {
  for (const Hook& hook : hooks_) hook.node->del_post_hook(hook.key);
}

}  // namespace ucxring::ddp
