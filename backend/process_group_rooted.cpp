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
    throw_invalid_argument(
        fmt::format("{}: the root takes one {} list, got {}", operation, role, lists.size()));
  }
  check_list(operation, role, lists.front().size(), world_size);
  return lists.front();
}

void check_no_list(const char* operation, const char* role, const TensorLists& lists) {
  for (const auto& list : lists) {
    if (!list.empty()) {
      throw_invalid_argument(
          fmt::format("{}: only the root takes an {} list, but this rank gives one of {} "
                      "tensors; pass none",
                      operation, role, list.size()));
    }
  }
}

/// The root's own part is as long as what it gives or gets itself.
void check_own_part(const char* operation, const std::vector<at::Tensor>& parts, const char* role, int root,
                    const at::Tensor& own, const char* own_role) {
  const at::Tensor& part = parts[static_cast<std::size_t>(root)];
  if (part.numel() == own.numel()) return;
  throw_invalid_argument(fmt::format(
      "{}: tensor {} of the {} list has {} elements, the root's own {} tensor {}; they must have as "
      "many",
      operation, root, role, part.numel(), own_role, own.numel()));
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
  const Reducing reducing = to_reducing(opts.reduceOp, "reduce");
  const DataType type = checked_type(tensor, reducing, "reduce");
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
  const bool is_root = opts.rootRank == getRank();
  check_input(input, "gather");
  std::vector<std::size_t> counts;  // elsewhere than at the root nobody knows or needs them
  if (is_root) {
    const Tensors& parts = root_list("gather", "output", outputs, getSize());
    check_outputs("gather", parts, input);
    check_own_part("gather", parts, "output", getRank(), input, "input");
    counts = moving_counts(parts);
  } else {
    check_no_list("gather", "output", outputs);
  }
  const DataType type = moving_type(input.scalar_type());
  const auto gather_packed = [&](const at::Tensor& own, Buffer output, const CallOptions& call) {
    return communicator_->gather(bytes_of(own), output, type, counts, root, call);
  };
  const auto whole = is_root ? writable_joined_bytes(outputs.front(), input) : Buffer{};
  const auto start = [&](const CallOptions& call) { return gather_packed(input, *whole, call); };
  const at::Tensor& kept_alive = is_root ? outputs.front().front() : input;
  if (whole && run_bare(opts.asyncOp, {input, kept_alive}, opts.timeout, start)) return nullptr;
  Request request = make_request("ucxring:gather", c10d::OpType::GATHER, opts.timeout);
  request.inputs = inputs;
  request.staging.push_back(packed_copy(input));
  if (is_root) {
    request.outputs = outputs.front();
    stage_parts(request, request.outputs);
  }
  return launch(std::move(request), opts.asyncOp,
                [&](WorkUcxring& work, const Request& kept, CallOptions call) {
                  const Buffer output = is_root ? writable_bytes_of(kept.staging.back()) : Buffer{};
                  work.add(gather_packed(kept.staging.front(), output, call));
                });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::scatter(Tensors& outputs, TensorLists& inputs,
                                                          const c10d::ScatterOptions& opts) {
  const at::Tensor& output = only(outputs, "scatter");
  const Rank root = checked_root("scatter", opts.rootRank, getSize());
  const bool is_root = opts.rootRank == getRank();
  check_output(output, "scatter");
  std::vector<std::size_t> counts;  // elsewhere than at the root nobody knows or needs them
  if (is_root) {
    const Tensors& parts = root_list("scatter", "input", inputs, getSize());
    check_inputs("scatter", parts, output);
    check_own_part("scatter", parts, "input", getRank(), output, "output");
    counts = moving_counts(parts);
  } else {
    check_no_list("scatter", "input", inputs);
  }
  const DataType type = moving_type(output.scalar_type());
  const auto scatter_packed = [&](ConstBuffer input, const at::Tensor& own, const CallOptions& call) {
    return communicator_->scatter(input, writable_bytes_of(own), type, counts, root, call);
  };
  const auto whole = is_root ? joined_bytes(inputs.front(), output) : ConstBuffer{};
  const auto start = [&](const CallOptions& call) { return scatter_packed(*whole, output, call); };
  const at::Tensor& kept_alive = is_root ? inputs.front().front() : output;
  if (whole && run_bare(opts.asyncOp, {output, kept_alive}, opts.timeout, start)) return nullptr;
  Request request = make_request("ucxring:scatter", c10d::OpType::SCATTER, opts.timeout);
  request.outputs = outputs;
  request.staging.push_back(packed_space(output));
  stage_result(request, request.staging.back(), output);
  if (is_root) {
    request.inputs = inputs.front();
    stage_joined(request, request.inputs);
  }
  return launch(std::move(request), opts.asyncOp,
                [&](WorkUcxring& work, const Request& kept, CallOptions call) {
                  const ConstBuffer input = is_root ? bytes_of(kept.staging.back()) : ConstBuffer{};
                  work.add(scatter_packed(input, kept.staging.front(), call));
                });
}

}  // namespace ucxring
