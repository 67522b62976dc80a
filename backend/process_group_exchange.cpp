// all_to_all: every rank gives each rank a part of its own.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "backend/errors.hpp"
#include "backend/process_group.hpp"
#include "backend/requests.hpp"

namespace ucxring {
namespace {

constexpr const char* kSingle = "all_to_all_single";

/// That there is a number for each rank and that together they make the rows of the tensor.
void check_splits(const char* role, const std::vector<std::int64_t>& splits, std::int64_t rows,
                  int world_size) {
  if (splits.size() != static_cast<std::size_t>(world_size)) {
    throw_invalid_argument(
        fmt::format("{}: the {} splits are {} number{}; there must be one for each of the {} ranks", kSingle,
                    role, splits.size(), splits.size() == 1 ? "" : "s", world_size));
  }
  std::int64_t sum = 0;
  bool fits = true;
  for (const std::int64_t split : splits) {
    if (split < 0) throw_invalid_argument(fmt::format("{}: {} split {} is negative", kSingle, role, split));
    fits = fits && !__builtin_add_overflow(sum, split, &sum);
  }
  if (fits && sum == rows) return;
  throw_invalid_argument(fmt::format("{}: the {} splits add up to {}, but the {} tensor has {} rows", kSingle,
                                     role, fits ? std::to_string(sum) : "more than memory can hold", role,
                                     rows));
}

/// Elements of `moving_type` in the rows that each rank gives or gets: `splits` says how many rows, or
/// nothing for as many of each.
std::vector<std::size_t> row_counts(const at::Tensor& tensor, const char* role,
                                    const std::vector<std::int64_t>& splits, int world_size) {
  if (tensor.dim() == 0) {
    throw_invalid_argument(
        fmt::format("{}: the {} tensor has no dimension; it needs one to be split along", kSingle, role));
  }
  const std::int64_t rows = tensor.size(0);
  const std::size_t row = rows == 0 ? 0
                                    : tensor.nbytes() / static_cast<std::size_t>(rows) /
                                          size_of(moving_type(tensor.scalar_type()));
  if (splits.empty()) {
    if (rows % world_size == 0) {
      return std::vector(static_cast<std::size_t>(world_size),
                         static_cast<std::size_t>(rows / world_size) * row);
    }
    throw_invalid_argument(fmt::format(
        "{}: the {} rows of the {} tensor cannot be split evenly between {} ranks; give {} splits", kSingle,
        rows, role, world_size, role));
  }
  check_splits(role, splits, rows, world_size);
  std::vector<std::size_t> counts;
  for (const std::int64_t split : splits) counts.push_back(static_cast<std::size_t>(split) * row);
  return counts;
}

}  // namespace

/// Equal parts when no rank names splits: then the shapes alone say so on every rank.
ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                                std::vector<int64_t>& output_splits,
                                                                std::vector<int64_t>& input_splits,
                                                                const c10d::AllToAllOptions& opts) {
  check_input(input, kSingle);
  check_output(output, kSingle);
  check_same_type(input, output, kSingle);
  const auto receives = row_counts(output, "output", output_splits, getSize());
  const auto sends = row_counts(input, "input", input_splits, getSize());
  const bool even = output_splits.empty() && input_splits.empty();
  if (even && input.numel() != output.numel()) {
    throw_invalid_argument(fmt::format(
        "{}: without splits both tensors must be of one size, but the input has {} and the output "
        "{} elements",
        kSingle, input.numel(), output.numel()));
  }
  const DataType type = moving_type(input.scalar_type());
  const auto exchange = [&](const at::Tensor& from, const at::Tensor& to, const CallOptions& call) {
    if (even) return communicator_->all_to_all(bytes_of(from), writable_bytes_of(to), type, call);
    return communicator_->all_to_all(bytes_of(from), writable_bytes_of(to), type, sends, receives, call);
  };
  const auto start = [&](CallOptions call) { return exchange(input, output, call); };
  if (run_bare(opts.asyncOp, {output, input}, opts.timeout, start)) return nullptr;
  Request request = make_request("ucxring:all_to_all", c10d::OpType::ALLTOALL_BASE, opts.timeout);
  add_pairs(request, {output}, {input});
  return launch(std::move(request), opts.asyncOp,
                [&](WorkUcxring& work, const Request& kept, CallOptions call) {
                  work.add(exchange(kept.staging.front(), kept.staging.back(), call));
                });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::alltoall(Tensors& outputs, Tensors& inputs,
                                                           const c10d::AllToAllOptions& opts) {
  check_list("all_to_all", "output", outputs.size(), getSize());
  check_list("all_to_all", "input", inputs.size(), getSize());
  check_inputs("all_to_all", inputs, inputs.front(), "first input");
  check_outputs("all_to_all", outputs, inputs.front(), "first input");
  const auto sends = moving_counts(inputs);
  const auto receives = moving_counts(outputs);
  const DataType type = moving_type(inputs.front().scalar_type());
  const auto exchange = [&](ConstBuffer from, Buffer to, const CallOptions& call) {
    return communicator_->all_to_all(from, to, type, sends, receives, call);
  };
  const auto from = joined_bytes(inputs, outputs.front());
  const auto to = writable_joined_bytes(outputs, inputs.front());
  const auto start = [&](const CallOptions& call) { return exchange(*from, *to, call); };
  const bool joined = from && to;
  if (joined && run_bare(opts.asyncOp, {outputs.front(), inputs.front()}, opts.timeout, start))
    return nullptr;
  Request request = make_request("ucxring:all_to_all", c10d::OpType::ALLTOALL, opts.timeout);
  request.inputs = inputs;
  request.outputs = outputs;
  stage_joined(request, inputs);
  stage_parts(request, outputs);
  return launch(std::move(request), opts.asyncOp,
                [&](WorkUcxring& work, const Request& kept, const CallOptions& call) {
                  const Buffer target = writable_bytes_of(kept.staging.back());
                  work.add(exchange(bytes_of(kept.staging.front()), target, call));
                });
}

}  // namespace ucxring
