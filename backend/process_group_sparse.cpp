// all_reduce of sparse tensors: every rank gets the entries of all, and adds them up itself.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

#include "backend/errors.hpp"
#include "backend/process_group.hpp"
#include "backend/requests.hpp"

namespace ucxring {
namespace {

constexpr const char* kName = "all_reduce of sparse tensors";

const at::Tensor& checked_sparse(const std::vector<at::Tensor>& tensors, const c10d::ReduceOp& op) {
  const at::Tensor& tensor = only(tensors, kName);
  if (tensor.layout() != at::kSparse || !tensor.device().is_cpu()) {
    throw_not_implemented(fmt::format("{} of layout {} on device {}", kName, c10d::toString(tensor.layout()),
                                      tensor.device().str()));
  }
  if (op != c10d::ReduceOp::SUM) {
    throw_invalid_argument(fmt::format("{}: the reduce operation is {}, but the only one there is is SUM",
                                       kName, to_string(to_reducing(op, kName).op)));
  }
  static_cast<void>(combining_type(tensor.scalar_type(), kName));
  return tensor;
}

constexpr std::size_t kMostDimensions = 16;
constexpr std::size_t kHead = 3;  // words of a description before the sizes

/// What all ranks must agree on, after the number of entries, which may differ.
at::Tensor describe(const at::Tensor& entries) {
  std::vector<std::int64_t> words{entries._nnz(), entries.sparse_dim(), entries.dense_dim()};
  // As many words on all ranks, so that different shapes are told apart here and not by the transport.
  const auto sizes = entries.sizes();
  if (sizes.size() > kMostDimensions) {
    throw_invalid_argument(fmt::format("{}: the tensor has {} dimensions; there may be {} at most", kName,
                                       sizes.size(), kMostDimensions));
  }
  words.insert(words.end(), sizes.begin(), sizes.end());
  words.resize(kHead + kMostDimensions, -1);
  return at::tensor(words, at::kLong);
}

/// "shape [3, 4] with 2 sparse dimensions", of a description.
std::string shape_text(const at::Tensor& words) {
  const auto* const word = words.const_data_ptr<std::int64_t>();
  const auto dimensions = word[1] + word[2];
  return fmt::format("shape [{}] with {} sparse dimension{}",
                     fmt::join(word + kHead, word + kHead + dimensions, ", "), word[1],
                     word[1] == 1 ? "" : "s");
}

/// The entries of each rank, given what each has said.
std::vector<std::int64_t> entry_counts(const at::Tensor& said, const at::Tensor& own) {
  std::vector<std::int64_t> counts;
  for (std::int64_t rank = 0; rank < said.size(0); ++rank) {
    const at::Tensor row = said[rank];
    if (!row.slice(0, 1).equal(own.slice(0, 1))) {
      throw_invalid_argument(
          fmt::format("{}: the tensor of rank {} has another shape than that of this rank: {} "
                      "and {}",
                      kName, rank, shape_text(row), shape_text(own)));
    }
    counts.push_back(row[0].item<std::int64_t>());
  }
  return counts;
}

/// Elements that each rank gives, when it gives `width` for an entry.
std::vector<std::size_t> scaled(const std::vector<std::int64_t>& entries, std::int64_t width) {
  std::vector<std::size_t> counts;
  for (const std::int64_t each : entries) counts.push_back(static_cast<std::size_t>(each * width));
  return counts;
}

/// Width of one entry in elements: product of the dense sizes.
std::int64_t dense_elements(const at::Tensor& entries) {
  std::int64_t product = 1;
  for (const std::int64_t size : entries.sizes().slice(static_cast<std::size_t>(entries.sparse_dim()))) {
    if (__builtin_mul_overflow(product, size, &product)) {
      throw_invalid_argument(
          fmt::format("{}: an entry with the dense sizes of {} has more elements than memory can "
                      "hold",
                      kName, shape_text(describe(entries))));
    }
  }
  return product;
}

/// Packed indices of one entry after the other: (entries, sparse dimensions).
at::Tensor packed_indices(const at::Tensor& entries) { return entries._indices().t().contiguous(); }

}  // namespace

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::allreduce_sparse(Tensors& tensors,
                                                                   const c10d::AllreduceOptions& opts) {
  const at::Tensor target = checked_sparse(tensors, opts.reduceOp);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor entries = target.coalesce();
  const at::Tensor own = describe(entries);
  at::Tensor said = at::empty({getSize(), own.numel()}, own.options());
  // The sizes must be known before anything else can begin: this waits for the other ranks in any case.
  translate_errors(context_->description, [&] {
    CallOptions call;
    call.timeout = opts.timeout;
    call.wait_soon = true;
    communicator_->all_gather(bytes_of(own), writable_bytes_of(said), DataType::int64, call)
        .wait()
        .throw_if_error();
  });
  const auto counts = entry_counts(said, own);
  const std::int64_t width = dense_elements(entries);
  std::int64_t total = 0;
  for (const std::int64_t each : counts) total += each;
  const at::Tensor values = entries._values().contiguous();
  const at::Tensor all_indices = at::empty({total, entries.sparse_dim()}, own.options());
  const at::Tensor all_values = at::empty({total * width}, values.options());
  Request request = make_request("ucxring:all_reduce_sparse", c10d::OpType::_ALLREDUCE_SPARSE, opts.timeout);
  request.inputs = tensors;
  request.outputs = tensors;
  request.staging = {packed_indices(entries), all_indices, values, all_values};
  request.copy_back = [target, all_indices, all_values, sizes = values.sizes().vec()]() mutable {
    const at::AutoDispatchBelowADInplaceOrView below;
    sizes.front() = all_indices.size(0);
    const at::Tensor sum = at::sparse_coo_tensor(all_indices.t(), all_values.view(sizes), target.sizes());
    target.copy_(sum.coalesce());
  };
  return launch(
      std::move(request), opts.asyncOp, [&](WorkUcxring& work, const Request& kept, CallOptions call) {
        const auto add = [&](std::size_t pair, std::int64_t unit) {
          const at::Tensor& from = kept.staging[pair];
          work.add(communicator_->all_gather(bytes_of(from), writable_bytes_of(kept.staging[pair + 1]),
                                             moving_type(from.scalar_type()), scaled(counts, unit), call));
        };
        add(0, entries.sparse_dim());
        add(2, width);
      });
}

}  // namespace ucxring
