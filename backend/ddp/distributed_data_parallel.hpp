// Data-parallel training of a torch::nn::Module in C++.
#pragma once

#include <torch/nn/module.h>

#include <array>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/ddp/comm_hooks.hpp"
#include "backend/ddp/reducer.hpp"
#include "backend/options.hpp"

namespace ucxring::ddp {

struct Options {
  ReducerOptions reducer;
  /// Before each synchronised forward all ranks get rank 0's buffers.
  bool broadcast_buffers = true;
  /// At construction the models are compared and all ranks get rank 0's parameters and buffers.
  bool init_sync = true;
};

/// A group of torch.distributed over ucxring, for programs without Python: CPU tensors, `size` ranks that
/// meet in `store` (`c10d::TCPStore`, `c10d::FileStore`). Throws what joining a group throws.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
    const c10::intrusive_ptr<OptionsUcxring>& options = c10::make_intrusive<OptionsUcxring>());

/// What does not depend on the module's type. Use `DistributedDataParallel`.
class DataParallel {
 public:
  DataParallel(torch::nn::Module& module, c10::intrusive_ptr<c10d::ProcessGroup> group,
               const Options& options);

  void before_forward();
  void after_forward(const std::vector<at::Tensor>& outputs);
  [[nodiscard]] Reducer& reducer() const noexcept { return *reducer_; }

  /// While it lives, forwards do not synchronise. Not thread-safe; may be nested.
  class NoSync {
   public:
    explicit NoSync(DataParallel& owner) : owner_(owner), before_(std::exchange(owner.synchronise_, false)) {}
    ~NoSync() { owner_.synchronise_ = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DataParallel& owner_;
    bool before_;
  };

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<at::Tensor> buffers_;
  bool broadcast_buffers_;
  bool synchronise_ = true;
  std::shared_ptr<Reducer> reducer_;
};

/// The tensors in what a forward returns: a tensor, or a vector, array, pair or tuple of such.
inline void collect_tensors(const at::Tensor& tensor, std::vector<at::Tensor>& tensors) {
  if (tensor.defined()) tensors.push_back(tensor);
}
template <typename T>
void collect_tensors(const std::vector<T>& values, std::vector<at::Tensor>& tensors) {
  for (const T& value : values) collect_tensors(value, tensors);
}
template <typename T, std::size_t kSize>
void collect_tensors(const std::array<T, kSize>& values, std::vector<at::Tensor>& tensors) {
  for (const T& value : values) collect_tensors(value, tensors);
}
template <typename First, typename Second>
void collect_tensors(const std::pair<First, Second>& values, std::vector<at::Tensor>& tensors) {
  collect_tensors(values.first, tensors);
  collect_tensors(values.second, tensors);
}
template <typename... Values>
void collect_tensors(const std::tuple<Values...>& values, std::vector<at::Tensor>& tensors) {
  std::apply([&](const auto&... value) { (collect_tensors(value, tensors), ...); }, values);
}

/// Trains one module on all ranks of a group: every backward leaves the mean of all ranks' gradients in the
/// parameters, so that ranks that take equal optimizer steps stay equal, bit for bit.
///
/// Each rank makes the same module and wraps it, then calls this object instead of the module. Parameters
/// keep their identity: an optimizer may be made before or after. Construction is collective. The module must
/// outlive the wrapper and keep its parameters. Semantics and errors are `Reducer`'s.
///
///     auto group = ucxring::ddp::make_process_group(store, rank, world_size);
///     Net net;
///     ucxring::ddp::DistributedDataParallel ddp(net, group);
///     torch::optim::SGD optimizer(net->parameters(), 0.1);
///     loss(ddp(input), target).backward();
///     optimizer.step();
template <typename ModuleType>
class DistributedDataParallel {
 public:
  DistributedDataParallel(std::shared_ptr<ModuleType> module, c10::intrusive_ptr<c10d::ProcessGroup> group,
                          const Options& options = {})
      : module_(std::move(module)), core_(*module_, std::move(group), options) {}
  DistributedDataParallel(const torch::nn::ModuleHolder<ModuleType>& module,
                          c10::intrusive_ptr<c10d::ProcessGroup> group, const Options& options = {})
      : DistributedDataParallel(module.ptr(), std::move(group), options) {}

  /// The module's forward with what belongs around it.
  template <typename... Arguments>
  auto forward(Arguments&&... arguments) {
    core_.before_forward();
    auto result = module_->forward(std::forward<Arguments>(arguments)...);
    std::vector<at::Tensor> outputs;
    collect_tensors(result, outputs);
    core_.after_forward(outputs);
    return result;
  }
  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  /// For micro-batches: forwards and backwards under the guard add up gradients without communication; the
  /// next ones after it average what has been added up.
  [[nodiscard]] DataParallel::NoSync no_sync() { return DataParallel::NoSync(core_); }
  /// Replaces the all-reduce of buckets; once, before the first forward. `chains`: callbacks of its futures
  /// may start collectives; buckets are then reduced one after the other.
  void register_comm_hook(CommHook hook, bool chains = true) {
    core_.reducer().set_comm_hook(make_comm_hook(std::move(hook)), chains);
  }
  [[nodiscard]] ModuleType& module() const noexcept { return *module_; }
  [[nodiscard]] Reducer& reducer() const noexcept { return core_.reducer(); }

 private:
  std::shared_ptr<ModuleType> module_;
  DataParallel core_;
};

template <typename Holder>
DistributedDataParallel(const Holder&, c10::intrusive_ptr<c10d::ProcessGroup>, const Options& = {})
    -> DistributedDataParallel<typename Holder::ContainedType>;

}  // namespace ucxring::ddp
