#include "backend/ddp/comm_hooks.hpp"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

namespace ucxring::ddp {
namespace {

class FunctionHook final : public c10d::CommHookInterface {
 public:
  explicit FunctionHook(CommHook hook) : hook_(std::move(hook)) {}
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override { return hook_(bucket); }
  at::Tensor parseHookResult(const c10::IValue& result) override {
    return c10d::detail::parseCppCommHookResult(result);
  }

 private:
  CommHook hook_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> make_comm_hook(CommHook hook) {
  return std::make_unique<FunctionHook>(std::move(hook));
}

CommHook bf16_compress(c10::intrusive_ptr<c10d::ProcessGroup> group) {
  return [group = std::move(group)](c10d::GradBucket& bucket) {
    const at::Tensor gradients = bucket.getBuffer();
    std::vector<at::Tensor> sent{gradients.to(at::kBFloat16).div_(group->getSize())};
    const auto work = group->allreduce(sent);
    return work->getFuture()->then(
        [gradients, sent](c10::ivalue::Future&) {
          gradients.copy_(sent[0]);
          return c10::IValue(std::vector<at::Tensor>{gradients});
        },
        c10::ListType::create(c10::TensorType::get()));
  };
}

}  // namespace ucxring::ddp
