// Collectives with a root: reduce, gather, scatter. Torch gives the lists of gather and scatter to the root
// alone.
#include <fmt/format.h>

#include <utility>

#include "backend/errors.hpp"
#include "backend/process_group.hpp"
#include "backend/requests.hpp"

namespace ucxring {
namespace {

using TensorLists = ProcessGroupUcxring::TensorLists;

/// The list that the root gives or gets; other ranks must have none.
const std::vector<at::Tensor>& root_list(const char* operation, const char* role, const TensorLists& lists,
                                         int world_size) {
  if (lists.size() != 1) {
    throw_value_error(fmt::format("{}: the root takes one {} list, got {}", operation, role, lists.size()));
  }
  check_list(operation, role, lists.front().size(), world_size);
  return lists.front();
}

void check_no_list(const char* operation, const char* role, const TensorLists& lists) {
  for (const auto& list : lists) {
    if (!list.empty()) {
      throw_value_error(fmt::format("{}: only the root takes an {} list", operation, role));
    }
  }
}

/// The root's own part is as long as what it gives or gets itself.
void check_own_part(const char* operation, const std::vector<at::Tensor>& parts, int root,
                    const at::Tensor& own) {
  const at::Tensor& part = parts[static_cast<std::size_t>(root)];
  if (part.numel() == own.numel()) return;
  throw_value_error(fmt::format("{}: tensor {} of the list has {} elements, that of the root {}", operation,
                                root, part.numel(), own.numel()));
}

}  // namespace

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const at::Tensor& tensor = only(tensors, "reduce");
  const Rank root = checked_root("reduce", opts.rootRank, getSize());
  const bool is_root = opts.rootRank == getRank();
  if (is_root) {
    check_output(tensor, "reduce", "input");
  } else {
    check_input(tensor, "reduce");
  }
  const Reducing reducing = to_reducing(opts.reduceOp);
  const DataType type = checked_type(tensor, reducing);
  const auto reduce_packed = [&](const at::Tensor& packed, CallOptions call) {
    call.factor = reducing.factor;
    const Buffer output = is_root ? writable_bytes_of(packed) : Buffer{};
    return communicator_->reduce(bytes_of(packed), output, type, reducing.op, root, call);
  };
  const auto start = [&](CallOptions call) { return reduce_packed(tensor, call); };
  if (run_bare(opts.asyncOp, {tensor}, opts.timeout, start)) return nullptr;
  Request request = make_request("ucxring:reduce", c10d::OpType::REDUCE, opts.timeout);
  request.inputs = tensors;
  request.outputs = tensors;
  request.staging.push_back(packed_copy(tensor));
  if (is_root) stage_result(request, request.staging.back(), tensor);
  return launch(std::move(request), opts.asyncOp,
                [&](WorkUcxring& work, const Request& kept, CallOptions call) {
                  work.add(reduce_packed(kept.staging.front(), call));
                });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::gather(TensorLists& outputs, Tensors& inputs,
                                                         const c10d::GatherOptions& opts) {
  const at::Tensor& input = only(inputs, "gather");
  const Rank root = checked_root("gather", opts.rootRank, getSize());
  check_input(input, "gather");
  Request request = make_request("ucxring:gather", c10d::OpType::GATHER, opts.timeout);
  request.inputs = inputs;
  request.staging.push_back(packed_copy(input));
  std::vector<std::size_t> counts(static_cast<std::size_t>(getSize()));
  if (opts.rootRank == getRank()) {
    request.outputs = root_list("gather", "output", outputs, getSize());
    check_outputs("gather", request.outputs, input);
    check_own_part("gather", request.outputs, getRank(), input);
    counts = moving_counts(request.outputs);
    stage_parts(request, request.outputs);
  } else {
    check_no_list("gather", "output", outputs);
  }
  const DataType type = moving_type(input.scalar_type());
  return launch(
      std::move(request), opts.asyncOp, [&](WorkUcxring& work, const Request& kept, CallOptions call) {
        const Buffer output = kept.staging.size() > 1 ? writable_bytes_of(kept.staging.back()) : Buffer{};
        const ConstBuffer own = bytes_of(kept.staging.front());
        work.add(communicator_->gather(own, output, type, counts, root, call));
      });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::scatter(Tensors& outputs, TensorLists& inputs,
                                                          const c10d::ScatterOptions& opts) {
  const at::Tensor& output = only(outputs, "scatter");
  const Rank root = checked_root("scatter", opts.rootRank, getSize());
  check_output(output, "scatter");
  Request request = make_request("ucxring:scatter", c10d::OpType::SCATTER, opts.timeout);
  request.outputs = outputs;
  request.staging.push_back(packed_space(output));
  stage_result(request, request.staging.back(), output);
  std::vector<std::size_t> counts(static_cast<std::size_t>(getSize()));
  if (opts.rootRank == getRank()) {
    request.inputs = root_list("scatter", "input", inputs, getSize());
    check_inputs("scatter", request.inputs, output);
    check_own_part("scatter", request.inputs, getRank(), output);
    counts = moving_counts(request.inputs);
    stage_joined(request, request.inputs);
  } else {
    check_no_list("scatter", "input", inputs);
  }
  const DataType type = moving_type(output.scalar_type());
  return launch(
      std::move(request), opts.asyncOp, [&](WorkUcxring& work, const Request& kept, CallOptions call) {
        const ConstBuffer input = kept.staging.size() > 1 ? bytes_of(kept.staging.back()) : ConstBuffer{};
        const Buffer own = writable_bytes_of(kept.staging.front());
        work.add(communicator_->scatter(input, own, type, counts, root, call));
      });
}

}  // namespace ucxring
