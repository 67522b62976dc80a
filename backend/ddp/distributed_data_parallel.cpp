#include "backend/ddp/distributed_data_parallel.hpp"

#include <torch/nn/modules/embedding.h>

#include <string>
#include <unordered_set>

#include "backend/ddp/agreement.hpp"
#include "backend/process_group.hpp"

namespace ucxring::ddp {
namespace {

/// Embeddings whose gradients are sparse.
std::unordered_set<const void*> sparse_weights(torch::nn::Module& module) {
  std::unordered_set<const void*> weights;
  for (const auto& each : module.modules()) {
    if (const auto* const embedding = each->as<torch::nn::Embedding>();
        embedding && embedding->options.sparse())
      weights.insert(embedding->weight.unsafeGetTensorImpl());
    if (const auto* const bag = each->as<torch::nn::EmbeddingBag>(); bag && bag->options.sparse())
      weights.insert(bag->weight.unsafeGetTensorImpl());
  }
  return weights;
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                          int rank, int size,
                                                          const c10::intrusive_ptr<OptionsUcxring>& options) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  auto backend = c10::make_intrusive<ProcessGroupUcxring>(store, rank, size, options, nullptr);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, std::move(backend));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  return group;
}

DataParallel::DataParallel(torch::nn::Module& module, c10::intrusive_ptr<c10d::ProcessGroup> group,
                           const Options& options)
    : group_(std::move(group)), buffers_(module.buffers()), broadcast_buffers_(options.broadcast_buffers) {
  std::vector<at::Tensor> all;
  std::vector<std::string> all_names;
  std::vector<at::Tensor> trained;
  std::vector<std::string> names;
  std::vector<bool> sparse;
  const auto weights = sparse_weights(module);
  std::unordered_set<const void*> seen;  // a parameter may have several names
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    all.push_back(item.value());
    all_names.push_back(item.key());
    if (!item.value().requires_grad()) continue;
    trained.push_back(item.value());
    names.push_back(item.key());
    sparse.push_back(weights.contains(item.value().unsafeGetTensorImpl()));
  }
  if (options.init_sync) {
    check_same_structure(*group_, all, all_names);
    all.insert(all.end(), buffers_.begin(), buffers_.end());
    broadcast_values(*group_, all, 0);
  }
  reducer_ = Reducer::create(std::move(trained), std::move(names), sparse, group_, options.reducer);
}

void DataParallel::before_forward() {
  if (at::GradMode::is_enabled()) reducer_->begin_forward(synchronise_);
  if (broadcast_buffers_ && synchronise_ && !buffers_.empty()) broadcast_values(*group_, buffers_, 0);
}

void DataParallel::after_forward(const std::vector<at::Tensor>& outputs) {
  if (at::GradMode::is_enabled()) reducer_->end_forward(outputs, synchronise_);
}

}  // namespace ucxring::ddp
