#include "backend/requests.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "backend/errors.hpp"
#include "collectives/reduce/table.hpp"

namespace ucxring {
namespace {

using Tensors = std::vector<at::Tensor>;

/// That `whole` has `world_size` times the elements of `part`, of the same dtype.
void check_whole(const char* operation, const at::Tensor& whole, const char* whole_role,
                 const at::Tensor& part, const char* part_role, int world_size) {
  check_same_type(part, whole, operation);
  std::int64_t wanted = 0;
  const bool fits = !__builtin_mul_overflow(part.numel(), std::int64_t{world_size}, &wanted);
  if (fits && whole.numel() == wanted) return;
  throw_invalid_argument(fmt::format(
      "{}: the {} tensor has {} elements; it must have {}, that is world size {} times "
      "the {} elements of the {} tensor",
      operation, whole_role, whole.numel(), fits ? std::to_string(wanted) : "more than memory can hold",
      world_size, part.numel(), part_role));
}

/// That `parts` are of one dtype with `like`.
void check_types(const char* operation, const char* role, const Tensors& parts, const at::Tensor& like,
                 const char* like_role) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].scalar_type() == like.scalar_type()) continue;
    throw_wrong_type(fmt::format(
        "{}: tensor {} of the {} list is {}, the {} tensor {}; all must have the same dtype", operation, i,
        role, c10::toString(parts[i].scalar_type()), like_role, c10::toString(like.scalar_type())));
  }
}

/// That all `parts` fit into one memory: expanded ones need not lie in any.
void check_sum(const char* operation, const char* role, const Tensors& parts) {
  std::int64_t sum = 0;
  for (const at::Tensor& part : parts) {
    std::int64_t bytes = 0;
    const auto size = static_cast<std::int64_t>(part.itemsize());
    if (!__builtin_mul_overflow(part.numel(), size, &bytes) && !__builtin_add_overflow(sum, bytes, &sum)) {
      continue;
    }
    throw_invalid_argument(
        fmt::format("{}: the tensors of the {} list have together more bytes than memory can "
                    "hold; one has {} elements",
                    operation, role, part.numel()));
  }
}

void add_to_copy_back(Request& request, std::function<void()> later) {
  request.copy_back = [earlier = std::move(request.copy_back), later = std::move(later)] {
    if (earlier) earlier();
    later();
  };
}

/// Uninitialised flat memory for all `parts`.
at::Tensor space_for(const Tensors& parts) {
  std::int64_t count = 0;
  for (const at::Tensor& part : parts) count += part.numel();
  return flat_space(parts.front(), count);
}

/// The bytes of `parts` if they lie packed one after the other, as the chunks of a tensor do.
std::optional<std::size_t> joined_size(const Tensors& parts) {
  const at::Tensor& first = parts.front();
  const auto* const begin = static_cast<const std::byte*>(first.const_data_ptr());
  std::size_t bytes = 0;
  for (const at::Tensor& part : parts) {
    if (!is_packed(part) || !part.is_alias_of(first) || part.const_data_ptr() != begin + bytes) return {};
    bytes += part.nbytes();
  }
  return bytes;
}

/// The memory of `parts` as one flat tensor if they are joined; an undefined one if they are not.
at::Tensor joined_memory(const Tensors& parts) {
  const auto size = joined_size(parts);
  if (!size) return {};
  const at::Tensor& first = parts.front();
  const at::AutoDispatchBelowADInplaceOrView below;
  return first.as_strided({static_cast<std::int64_t>(*size / first.itemsize())}, {1});
}

bool any_alias(const Tensors& some, const Tensors& others) {
  return std::any_of(some.begin(), some.end(), [&](const at::Tensor& one) {
    return std::any_of(others.begin(), others.end(),
                       [&](const at::Tensor& other) { return one.is_alias_of(other); });
  });
}

}  // namespace

const at::Tensor& only(const Tensors& tensors, const char* operation) {
  if (tensors.size() == 1) return tensors.front();
  throw_invalid_argument(fmt::format("{}: takes one tensor, got {}", operation, tensors.size()));
}

void check_equal_lengths(const char* operation, std::size_t outputs, std::size_t inputs) {
  if (outputs == inputs && inputs > 0) return;
  throw_invalid_argument(
      fmt::format("{}: needs as many outputs as inputs and at least one, got {} outputs and {} inputs",
                  operation, outputs, inputs));
}

void check_list(const char* operation, const char* role, std::size_t length, int world_size) {
  if (length == static_cast<std::size_t>(world_size)) return;
  throw_invalid_argument(fmt::format("{}: the {} list needs one tensor for each of the {} ranks, got {}",
                                     operation, role, world_size, length));
}

Rank checked_root(const char* operation, std::int64_t root, int world_size) {
  if (root >= 0 && root < world_size) return Rank(static_cast<int>(root));
  throw_invalid_argument(
      fmt::format("{}: root {} is not a rank of this group of {}", operation, root, world_size));
}

void check_gather_pair(const at::Tensor& output, const at::Tensor& input, int world_size) {
  check_input(input, "all_gather_into_tensor");
  check_output(output, "all_gather_into_tensor");
  check_whole("all_gather_into_tensor", output, "output", input, "input", world_size);
}

void check_scatter_pair(const at::Tensor& output, const at::Tensor& input, int world_size) {
  check_input(input, "reduce_scatter_tensor");
  check_output(output, "reduce_scatter_tensor");
  check_whole("reduce_scatter_tensor", input, "input", output, "output", world_size);
}

void check_outputs(const char* operation, const Tensors& parts, const at::Tensor& like,
                   const char* like_role) {
  for (const at::Tensor& part : parts) check_output(part, operation);
  check_types(operation, "output", parts, like, like_role);
  check_sum(operation, "output", parts);
}

void check_inputs(const char* operation, const Tensors& parts, const at::Tensor& like,
                  const char* like_role) {
  for (const at::Tensor& part : parts) check_input(part, operation);
  check_types(operation, "input", parts, like, like_role);
  check_sum(operation, "input", parts);
}

DataType checked_type(const at::Tensor& tensor, const Reducing& reducing, const char* operation) {
  const DataType type = combining_type(tensor.scalar_type(), operation);
  try {
    static_cast<void>(find_reduction(type, reducing.op));
  } catch (const Error& error) {
    const Status named(error.code(), fmt::format("{}: {}", operation, error.status().message()));
    std::rethrow_exception(to_torch_exception(named, ""));
  }
  return type;
}

void stage_result(Request& request, const at::Tensor& packed, const at::Tensor& target) {
  if (packed.is_same(target)) return;
  add_to_copy_back(request, [packed, target] { copy_values(packed, target); });
}

void stage_parts(Request& request, const Tensors& parts) {
  // In place they are staged: a rank cannot know whether the other ranks' buffers overlap as its own do.
  if (const at::Tensor whole = joined_memory(parts); whole.defined() && !any_alias(request.inputs, parts)) {
    request.staging.push_back(whole);
    return;
  }
  const at::Tensor joined = space_for(parts);
  request.staging.push_back(joined);
  add_to_copy_back(request, [joined, parts] { scatter_values(joined, parts); });
}

void stage_joined(Request& request, const Tensors& parts) {
  if (const at::Tensor whole = joined_memory(parts); whole.defined() && !any_alias(request.outputs, parts)) {
    request.staging.push_back(whole);
    return;
  }
  request.staging.push_back(space_for(parts));
  gather_values(parts, request.staging.back());
}

std::optional<ConstBuffer> joined_bytes(const Tensors& parts, const at::Tensor& apart) {
  const at::Tensor& first = parts.front();
  const auto size = first.is_alias_of(apart) ? std::nullopt : joined_size(parts);
  if (!size) return {};
  return ConstBuffer{static_cast<const std::byte*>(first.const_data_ptr()), *size};
}

std::optional<Buffer> writable_joined_bytes(const Tensors& parts, const at::Tensor& apart) {
  const at::Tensor& first = parts.front();
  const auto size = first.is_alias_of(apart) ? std::nullopt : joined_size(parts);
  if (!size) return {};
  return Buffer{static_cast<std::byte*>(first.mutable_data_ptr()), *size};
}

std::vector<std::size_t> moving_counts(const Tensors& parts) {
  std::vector<std::size_t> counts;
  counts.reserve(parts.size());
  for (const at::Tensor& part : parts) {
    counts.push_back(part.nbytes() / size_of(moving_type(part.scalar_type())));
  }
  return counts;
}

Request make_request(const char* title, c10d::OpType type, std::chrono::milliseconds timeout) {
  Request request;
  request.title = title;
  request.type = type;
  request.timeout = timeout;
  return request;
}

void add_pairs(Request& request, const Tensors& outputs, const Tensors& inputs) {
  request.inputs = inputs;
  request.outputs = outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    request.staging.push_back(packed_copy(inputs[i]));
    request.staging.push_back(packed_space(outputs[i]));
    stage_result(request, request.staging.back(), outputs[i]);
  }
}

}  // namespace ucxring
