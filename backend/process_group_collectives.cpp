// The collectives of torch as operations of a communicator: checks, packing, results.
#include <fmt/format.h>

#include <utility>

#include "backend/errors.hpp"
#include "backend/process_group.hpp"
#include "collectives/reduce/table.hpp"

namespace ucxring {
namespace {

using Tensors = std::vector<at::Tensor>;

const at::Tensor& only(const Tensors& tensors, const char* operation) {
  if (tensors.size() == 1) return tensors.front();
  throw_value_error(fmt::format("{}: takes one tensor, got {}", operation, tensors.size()));
}

void check_equal_lengths(const char* operation, std::size_t outputs, std::size_t inputs) {
  if (outputs == inputs && inputs > 0) return;
  throw_value_error(fmt::format("{}: needs as many outputs as inputs and at least one, got {} and {}",
                                operation, outputs, inputs));
}

void check_list(const char* operation, const char* role, const Tensors& list, int world_size) {
  if (list.size() == static_cast<std::size_t>(world_size)) return;
  throw_value_error(fmt::format("{}: the {} list needs one tensor for each of the {} ranks, got {}",
                                operation, role, world_size, list.size()));
}

/// That `whole` has `world_size` times the elements of `part`, of the same dtype.
void check_whole(const char* operation, const at::Tensor& whole, const char* whole_role,
                 const at::Tensor& part, const char* part_role, int world_size) {
  check_same_type(part, whole, operation);
  if (whole.numel() == part.numel() * world_size) return;
  throw_value_error(fmt::format(
      "{}: the {} tensor has {} elements; it must have {}, that is world size {} times "
      "the {} elements of the {} tensor",
      operation, whole_role, whole.numel(), part.numel() * world_size, world_size, part.numel(), part_role));
}

/// The element type, checked before anything is sent to be one that `reducing` has a meaning for.
DataType checked_type(const at::Tensor& tensor, const Reducing& reducing) {
  const DataType type = combining_type(tensor.scalar_type());
  static_cast<void>(translate_errors("", [&] { return find_reduction(type, reducing.op); }));
  return type;
}

/// Adds to `request` that `packed` is brought to `target` at the end, where they are not the same tensor.
void stage_result(Request& request, const at::Tensor& packed, const at::Tensor& target) {
  if (packed.is_same(target)) return;
  request.copy_back = [earlier = std::move(request.copy_back), packed, target] {
    if (earlier) earlier();
    copy_values(packed, target);
  };
}

Request make_request(const char* title, c10d::OpType type, std::chrono::milliseconds timeout) {
  Request request;
  request.title = title;
  request.type = type;
  request.timeout = timeout;
  return request;
}

/// Fills inputs, outputs and staging (input, output, input, output, …) for tensors taken in pairs.
void add_pairs(Request& request, const Tensors& outputs, const Tensors& inputs) {
  request.inputs = inputs;
  request.outputs = outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    request.staging.push_back(packed_copy(inputs[i]));
    request.staging.push_back(packed_space(outputs[i]));
    stage_result(request, request.staging.back(), outputs[i]);
  }
}

}  // namespace

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::allreduce(Tensors& tensors,
                                                            const c10d::AllreduceOptions& opts) {
  only(tensors, "all_reduce");
  c10d::AllreduceCoalescedOptions coalesced;
  static_cast<c10d::AllreduceOptions&>(coalesced) = opts;
  return allreduce_coalesced(tensors, coalesced);
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  const auto type = tensors.size() == 1 ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED;
  const Reducing reducing = to_reducing(opts.reduceOp);
  Request request = make_request("ucxring:all_reduce", type, opts.timeout);
  if (tensors.empty()) throw_value_error("all_reduce: no tensors");
  for (const at::Tensor& tensor : tensors) {
    check_output(tensor, "all_reduce", "input");
    static_cast<void>(checked_type(tensor, reducing));
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
                    work.add(communicator_->all_reduce(buffer, buffer, combining_type(tensor.scalar_type()),
                                                       reducing.op, call));
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
  if (opts.rootRank < 0 || opts.rootRank >= getSize()) {
    throw_value_error(
        fmt::format("broadcast: root {} is not a rank of this group of {}", opts.rootRank, getSize()));
  }
  Request request = make_request("ucxring:broadcast", c10d::OpType::BROADCAST, opts.timeout);
  request.inputs = tensors;
  request.outputs = tensors;
  request.staging.push_back(is_root ? packed_copy(tensor) : packed_space(tensor));
  if (!is_root) stage_result(request, request.staging.back(), tensor);
  const Rank root(static_cast<int>(opts.rootRank));
  return launch(std::move(request), opts.asyncOp,
                [&](WorkUcxring& work, const Request& kept, CallOptions call) {
                  const at::Tensor& packed = kept.staging.front();
                  work.add(communicator_->broadcast(writable_bytes_of(packed),
                                                    moving_type(packed.scalar_type()), root, call));
                });
}

/// All-gathers the pairs in `request.staging`.
ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::gather_pairs(Request request, bool async_op) {
  return launch(std::move(request), async_op, [&](WorkUcxring& work, const Request& kept, CallOptions call) {
    for (std::size_t i = 0; i < kept.staging.size(); i += 2) {
      const at::Tensor& input = kept.staging[i];
      work.add(communicator_->all_gather(bytes_of(input), writable_bytes_of(kept.staging[i + 1]),
                                         moving_type(input.scalar_type()), call));
    }
  });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::allgather(TensorLists& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& opts) {
  const at::Tensor& input = only(inputs, "all_gather");
  check_equal_lengths("all_gather", outputs.size(), inputs.size());
  const Tensors& parts = outputs.front();
  check_list("all_gather", "output", parts, getSize());
  check_input(input, "all_gather");
  for (const at::Tensor& part : parts) {
    check_output(part, "all_gather");
    check_same_type(input, part, "all_gather");
    if (part.numel() != input.numel()) {
      throw_value_error(
          fmt::format("all_gather: an output tensor has {} elements, the input {}; uneven sizes are "
                      "not implemented",
                      part.numel(), input.numel()));
    }
  }
  Request request = make_request("ucxring:all_gather", c10d::OpType::ALLGATHER, opts.timeout);
  request.inputs = inputs;
  request.outputs = parts;
  const at::Tensor gathered = flat_space(input, input.numel() * getSize());
  request.staging = {packed_copy(input), gathered};
  request.copy_back = [gathered, parts] { scatter_values(gathered, parts); };
  return gather_pairs(std::move(request), opts.asyncOp);
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                                  const c10d::AllgatherOptions& opts) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, opts);
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  check_equal_lengths("all_gather_into_tensor", outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_input(inputs[i], "all_gather_into_tensor");
    check_output(outputs[i], "all_gather_into_tensor");
    check_whole("all_gather_into_tensor", outputs[i], "output", inputs[i], "input", getSize());
  }
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
      work.add(communicator_->reduce_scatter(bytes_of(input), writable_bytes_of(kept.staging[i + 1]),
                                             combining_type(input.scalar_type()), reducing.op, call));
    }
  });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                                 const c10d::ReduceScatterOptions& opts) {
  const at::Tensor& output = only(outputs, "reduce_scatter");
  check_equal_lengths("reduce_scatter", outputs.size(), inputs.size());
  const Tensors& parts = inputs.front();
  check_list("reduce_scatter", "input", parts, getSize());
  check_output(output, "reduce_scatter");
  for (const at::Tensor& part : parts) {
    check_input(part, "reduce_scatter");
    check_same_type(part, output, "reduce_scatter");
    if (part.numel() != output.numel()) throw_not_implemented("reduce_scatter with uneven input sizes");
  }
  const Reducing reducing = to_reducing(opts.reduceOp);
  static_cast<void>(checked_type(output, reducing));
  Request request = make_request("ucxring:reduce_scatter", c10d::OpType::REDUCE_SCATTER, opts.timeout);
  request.inputs = parts;
  request.outputs = outputs;
  const at::Tensor joined = flat_space(output, output.numel() * getSize());
  gather_values(parts, joined);
  request.staging = {joined, packed_space(output)};
  stage_result(request, request.staging.back(), output);
  return reduce_pairs(std::move(request), reducing, opts.asyncOp);
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts) {
  check_equal_lengths("reduce_scatter_tensor", outputs.size(), inputs.size());
  const Reducing reducing = to_reducing(opts.reduceOp);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_input(inputs[i], "reduce_scatter_tensor");
    check_output(outputs[i], "reduce_scatter_tensor");
    check_whole("reduce_scatter_tensor", inputs[i], "input", outputs[i], "output", getSize());
    static_cast<void>(checked_type(inputs[i], reducing));
  }
  const auto type =
      inputs.size() == 1 ? c10d::OpType::_REDUCE_SCATTER_BASE : c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
  Request request = make_request("ucxring:reduce_scatter_tensor", type, opts.timeout);
  add_pairs(request, outputs, inputs);
  return reduce_pairs(std::move(request), reducing, opts.asyncOp);
}

}  // namespace ucxring
