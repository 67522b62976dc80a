// The collectives of torch as operations of a communicator: checks, packing, results.
#include <fmt/format.h>

#include <utility>

#include "backend/errors.hpp"
#include "backend/process_group.hpp"
#include "backend/requests.hpp"

namespace ucxring {
namespace {

/// Checks the tensors of an all_gather into a list.
void check_gathering(const char* operation, const std::vector<at::Tensor>& parts, const at::Tensor& input,
                     int rank) {
  check_input(input, operation);
  check_outputs(operation, parts, input);
  const at::Tensor& own = parts[static_cast<std::size_t>(rank)];
  if (own.numel() == input.numel()) return;
  throw_invalid_argument(fmt::format(
      "{}: the output tensor for this rank, {}, has {} elements, the input {}; they must have as many",
      operation, rank, own.numel(), input.numel()));
}

/// Adds them to `request`: the packed input, and memory for all ranks' parts. Returns how much each rank
/// gives.
std::vector<std::size_t> stage_gathering(Request& request, const std::vector<at::Tensor>& parts,
                                         const at::Tensor& input) {
  request.staging.push_back(packed_copy(input));
  stage_parts(request, parts);
  return moving_counts(parts);
}

}  // namespace

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::allreduce(Tensors& tensors,
                                                            const c10d::AllreduceOptions& opts) {
  const at::Tensor& tensor = only(tensors, "all_reduce");
  if (tensor.defined() && tensor.is_sparse()) return allreduce_sparse(tensors, opts);
  check_output(tensor, "all_reduce", "input");
  const auto start = [&](CallOptions call) {
    const Reducing reducing = to_reducing(opts.reduceOp, "all_reduce");
    call.factor = reducing.factor;
    const DataType type = checked_type(tensor, reducing, "all_reduce");
    const Buffer buffer = writable_bytes_of(tensor);
    return communicator_->all_reduce(buffer, buffer, type, reducing.op, call);
  };
  if (run_bare(opts.asyncOp, {tensor}, opts.timeout, start)) return nullptr;
  c10d::AllreduceCoalescedOptions coalesced;
  static_cast<c10d::AllreduceOptions&>(coalesced) = opts;
  return allreduce_coalesced(tensors, coalesced);
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  const auto type = tensors.size() == 1 ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED;
  const Reducing reducing = to_reducing(opts.reduceOp, "all_reduce");
  Request request = make_request("ucxring:all_reduce", type, opts.timeout);
  if (tensors.empty()) throw_invalid_argument("all_reduce: the list of tensors is empty");
  for (const at::Tensor& tensor : tensors) {
    check_output(tensor, "all_reduce", "input");
    static_cast<void>(checked_type(tensor, reducing, "all_reduce"));
    request.staging.push_back(packed_copy(tensor));
    stage_result(request, request.staging.back(), tensor);
  }
  request.inputs = tensors;
  request.outputs = tensors;
  return launch(std::move(request), opts.asyncOp,
                [&](WorkUcxring& work, const Request& kept, CallOptions call) {
                  call.factor = reducing.factor;
                  for (const at::Tensor& tensor : kept.staging) {
                    const Buffer buffer = writable_bytes_of(tensor);
                    const DataType element = combining_type(tensor.scalar_type(), "all_reduce");
                    work.add(communicator_->all_reduce(buffer, buffer, element, reducing.op, call));
                  }
                });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::broadcast(Tensors& tensors,
                                                            const c10d::BroadcastOptions& opts) {
  const at::Tensor& tensor = only(tensors, "broadcast");
  const bool is_root = opts.rootRank == getRank();
  if (is_root) {
    check_input(tensor, "broadcast");
  } else {
    check_output(tensor, "broadcast");
  }
  const Rank root = checked_root("broadcast", opts.rootRank, getSize());
  const auto start = [&](CallOptions call) {
    return communicator_->broadcast(writable_bytes_of(tensor), moving_type(tensor.scalar_type()), root, call);
  };
  if (run_bare(opts.asyncOp, {tensor}, opts.timeout, start)) return nullptr;
  Request request = make_request("ucxring:broadcast", c10d::OpType::BROADCAST, opts.timeout);
  request.inputs = tensors;
  request.outputs = tensors;
  request.staging.push_back(is_root ? packed_copy(tensor) : packed_space(tensor));
  if (!is_root) stage_result(request, request.staging.back(), tensor);
  return launch(std::move(request), opts.asyncOp,
                [&](WorkUcxring& work, const Request& kept, CallOptions call) {
                  const at::Tensor& packed = kept.staging.front();
                  work.add(communicator_->broadcast(writable_bytes_of(packed),
                                                    moving_type(packed.scalar_type()), root, call));
                });
}

/// All-gathers the pairs in `request.staging`; `counts[i]` says what each rank gives to pair i, no counts
/// that all give as much.
ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::gather_pairs(
    Request request, bool async_op, const std::vector<std::vector<std::size_t>>& counts) {
  return launch(std::move(request), async_op, [&](WorkUcxring& work, const Request& kept, CallOptions call) {
    for (std::size_t i = 0; i < kept.staging.size() / 2; ++i) {
      const ConstBuffer input = bytes_of(kept.staging[2 * i]);
      const Buffer output = writable_bytes_of(kept.staging[2 * i + 1]);
      const DataType type = moving_type(kept.staging[2 * i].scalar_type());
      work.add(counts.empty() ? communicator_->all_gather(input, output, type, call)
                              : communicator_->all_gather(input, output, type, counts[i], call));
    }
  });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::allgather(TensorLists& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& opts) {
  const at::Tensor& input = only(inputs, "all_gather");
  check_equal_lengths("all_gather", outputs.size(), inputs.size());
  const Tensors& parts = outputs.front();
  check_list("all_gather", "output", parts.size(), getSize());
  check_gathering("all_gather", parts, input, getRank());
  const auto whole = writable_joined_bytes(parts, input);
  const auto start = [&](const CallOptions& call) {
    return communicator_->all_gather(bytes_of(input), *whole, moving_type(input.scalar_type()),
                                     moving_counts(parts), call);
  };
  if (whole && run_bare(opts.asyncOp, {input, parts.front()}, opts.timeout, start)) return nullptr;
  Request request = make_request("ucxring:all_gather", c10d::OpType::ALLGATHER, opts.timeout);
  request.inputs = inputs;
  request.outputs = parts;
  const auto counts = stage_gathering(request, parts, input);
  return gather_pairs(std::move(request), opts.asyncOp, {counts});
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                                      const c10d::AllgatherOptions& opts) {
  if (inputs.empty()) throw_invalid_argument("all_gather_coalesced: the list of inputs is empty");
  check_list("all_gather_coalesced", "output", outputs.size(), getSize());
  Request request = make_request("ucxring:all_gather", c10d::OpType::ALLGATHER_COALESCED, opts.timeout);
  for (const Tensors& of_rank : outputs) {
    check_equal_lengths("all_gather_coalesced", of_rank.size(), inputs.size());
    request.outputs.insert(request.outputs.end(), of_rank.begin(), of_rank.end());
  }
  std::vector<std::vector<std::size_t>> counts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors parts;
    for (const Tensors& of_rank : outputs) parts.push_back(of_rank[i]);
    check_gathering("all_gather_coalesced", parts, inputs[i], getRank());
    counts.push_back(stage_gathering(request, parts, inputs[i]));
  }
  request.inputs = inputs;
  return gather_pairs(std::move(request), opts.asyncOp, counts);
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                                  const c10d::AllgatherOptions& opts) {
  check_gather_pair(output, input, getSize());
  const auto start = [&](CallOptions call) {
    return communicator_->all_gather(bytes_of(input), writable_bytes_of(output),
                                     moving_type(input.scalar_type()), call);
  };
  if (run_bare(opts.asyncOp, {output, input}, opts.timeout, start)) return nullptr;
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, opts);
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  check_equal_lengths("all_gather_into_tensor", outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) check_gather_pair(outputs[i], inputs[i], getSize());
  const auto type = inputs.size() == 1 ? c10d::OpType::_ALLGATHER_BASE : c10d::OpType::COALESCED;
  Request request = make_request("ucxring:all_gather_into_tensor", type, opts.timeout);
  add_pairs(request, outputs, inputs);
  return gather_pairs(std::move(request), opts.asyncOp);
}

/// Reduce-scatters the pairs in `request.staging`.
ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::reduce_pairs(Request request, const Reducing& reducing,
                                                               bool async_op) {
  return launch(std::move(request), async_op, [&](WorkUcxring& work, const Request& kept, CallOptions call) {
    call.factor = reducing.factor;
    for (std::size_t i = 0; i < kept.staging.size(); i += 2) {
      const at::Tensor& input = kept.staging[i];
      const DataType type = combining_type(input.scalar_type(), "reduce_scatter_tensor");
      work.add(communicator_->reduce_scatter(bytes_of(input), writable_bytes_of(kept.staging[i + 1]), type,
                                             reducing.op, call));
    }
  });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                                 const c10d::ReduceScatterOptions& opts) {
  const at::Tensor& output = only(outputs, "reduce_scatter");
  check_equal_lengths("reduce_scatter", outputs.size(), inputs.size());
  const Tensors& parts = inputs.front();
  check_list("reduce_scatter", "input", parts.size(), getSize());
  check_output(output, "reduce_scatter");
  check_inputs("reduce_scatter", parts, output);
  const at::Tensor& own = parts[static_cast<std::size_t>(getRank())];
  if (own.numel() != output.numel()) {
    throw_invalid_argument(fmt::format(
        "reduce_scatter: the input tensor for this rank, {}, has {} elements, the output {}; they "
        "must have as many",
        getRank(), own.numel(), output.numel()));
  }
  const Reducing reducing = to_reducing(opts.reduceOp, "reduce_scatter");
  const DataType type = checked_type(output, reducing, "reduce_scatter");
  const auto scatter_packed = [&](ConstBuffer joined, const at::Tensor& packed, CallOptions call) {
    call.factor = reducing.factor;
    return communicator_->reduce_scatter(joined, writable_bytes_of(packed), type, reducing.op,
                                         moving_counts(parts), call);
  };
  const auto whole = joined_bytes(parts, output);
  const auto start = [&](const CallOptions& call) { return scatter_packed(*whole, output, call); };
  if (whole && run_bare(opts.asyncOp, {output, parts.front()}, opts.timeout, start)) return nullptr;
  Request request = make_request("ucxring:reduce_scatter", c10d::OpType::REDUCE_SCATTER, opts.timeout);
  request.inputs = parts;
  request.outputs = outputs;
  stage_joined(request, parts);
  request.staging.push_back(packed_space(output));
  stage_result(request, request.staging.back(), output);
  return launch(std::move(request), opts.asyncOp,
                [&](WorkUcxring& work, const Request& kept, const CallOptions& call) {
                  work.add(scatter_packed(bytes_of(kept.staging.front()), kept.staging.back(), call));
                });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) {
  check_scatter_pair(output, input, getSize());
  const auto start = [&](CallOptions call) {
    const Reducing reducing = to_reducing(opts.reduceOp, "reduce_scatter_tensor");
    call.factor = reducing.factor;
    const DataType type = checked_type(input, reducing, "reduce_scatter_tensor");
    return communicator_->reduce_scatter(bytes_of(input), writable_bytes_of(output), type, reducing.op, call);
  };
  if (run_bare(opts.asyncOp, {output, input}, opts.timeout, start)) return nullptr;
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts) {
  check_equal_lengths("reduce_scatter_tensor", outputs.size(), inputs.size());
  const Reducing reducing = to_reducing(opts.reduceOp, "reduce_scatter_tensor");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_scatter_pair(outputs[i], inputs[i], getSize());
    static_cast<void>(checked_type(inputs[i], reducing, "reduce_scatter_tensor"));
  }
  const auto type =
      inputs.size() == 1 ? c10d::OpType::_REDUCE_SCATTER_BASE : c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
  Request request = make_request("ucxring:reduce_scatter_tensor", type, opts.timeout);
  add_pairs(request, outputs, inputs);
  return reduce_pairs(std::move(request), reducing, opts.asyncOp);
}

}  // namespace ucxring
