#include "backend/convert.hpp"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <optional>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "backend/errors.hpp"

namespace ucxring {
namespace {

std::optional<DataType> find_type(at::ScalarType type) noexcept {
  switch (type) {
    case at::kDouble:
      return DataType::float64;
    case at::kFloat:
      return DataType::float32;
    case at::kHalf:
      return DataType::float16;
    case at::kBFloat16:
      return DataType::bfloat16;
    case at::kFloat8_e4m3fn:
      return DataType::float8_e4m3fn;
    case at::kFloat8_e5m2:
      return DataType::float8_e5m2;
    case at::kChar:
      return DataType::int8;
    case at::kByte:
      return DataType::uint8;
    case at::kShort:
      return DataType::int16;
    case at::kInt:
      return DataType::int32;
    case at::kLong:
      return DataType::int64;
    case at::kUInt16:
      return DataType::uint16;
    case at::kUInt32:
      return DataType::uint32;
    case at::kUInt64:
      return DataType::uint64;
    case at::kBool:
      return DataType::boolean;
    case at::kComplexFloat:
      return DataType::complex64;
    case at::kComplexDouble:
      return DataType::complex128;
    default:
      return std::nullopt;
  }
}

/// Calls `move(slice, part)` for each part and the slice of `joined` that belongs to it.
template <typename Move>
void for_each_part(const at::Tensor& joined, const std::vector<at::Tensor>& parts, Move move) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    move(joined.narrow(0, begin, part.numel()).view(part.sizes()), part);
    begin += part.numel();
  }
}

double premul_factor(const c10d::ReduceOp& op, std::string_view operation) {
  const auto* const supplement = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr) {
    throw_invalid_argument(
        fmt::format("{}: the reduce operation PREMUL_SUM comes without a factor; make it with "
                    "one (torch.distributed._make_nccl_premul_sum)",
                    operation));
  }
  if (!supplement->tensor_factor.defined()) return supplement->double_factor;
  return supplement->tensor_factor.item().toDouble();
}

}  // namespace

DataType combining_type(at::ScalarType type, std::string_view operation) {
  const auto found = find_type(type);
  if (!found) {
    throw_wrong_type(
        fmt::format("{}: tensors of dtype {} cannot be reduced; convert them to another type first",
                    operation, c10::toString(type)));
  }
  return *found;
}

DataType moving_type(at::ScalarType type) { return find_type(type).value_or(DataType::uint8); }

Reducing to_reducing(const c10d::ReduceOp& op, std::string_view operation) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return {ReduceOp::sum};
    case c10d::ReduceOp::AVG:
      return {ReduceOp::average};
    case c10d::ReduceOp::PRODUCT:
      return {ReduceOp::product};
    case c10d::ReduceOp::MIN:
      return {ReduceOp::min};
    case c10d::ReduceOp::MAX:
      return {ReduceOp::max};
    case c10d::ReduceOp::BAND:
      return {ReduceOp::bit_and};
    case c10d::ReduceOp::BOR:
      return {ReduceOp::bit_or};
    case c10d::ReduceOp::BXOR:
      return {ReduceOp::bit_xor};
    case c10d::ReduceOp::PREMUL_SUM:
      return {ReduceOp::premul_sum, premul_factor(op, operation)};
    default:
      throw_invalid_argument(
          fmt::format("{}: number {} is no reduce operation", operation, static_cast<int>(op.op_)));
  }
}

void check_input(const at::Tensor& tensor, std::string_view operation, std::string_view role) {
  if (!tensor.defined()) throw_invalid_argument(fmt::format("{}: {} tensor is undefined", operation, role));
  if (tensor.layout() != at::kStrided) {
    throw_not_implemented(
        fmt::format("{}: sparse {} tensor ({})", operation, role, c10d::toString(tensor.layout())));
  }
  if (!tensor.device().is_cpu()) {
    throw_not_implemented(fmt::format("{}: {} tensor on device {} (only CPU tensors are)", operation, role,
                                      tensor.device().str()));
  }
}

void check_output(const at::Tensor& tensor, std::string_view operation, std::string_view role) {
  check_input(tensor, operation, role);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    throw_invalid_argument(fmt::format(
        "{}: elements of the {} tensor share memory (an expanded tensor?); pass a clone", operation, role));
  }
}

void check_same_type(const at::Tensor& input, const at::Tensor& output, std::string_view operation) {
  if (input.scalar_type() == output.scalar_type()) return;
  throw_wrong_type(fmt::format("{}: input is {}, output is {}; both must have the same dtype", operation,
                               c10::toString(input.scalar_type()), c10::toString(output.scalar_type())));
}

ConstBuffer bytes_of(const at::Tensor& packed) {
  return {static_cast<const std::byte*>(packed.const_data_ptr()), packed.nbytes()};
}

Buffer writable_bytes_of(const at::Tensor& packed) {
  return {static_cast<std::byte*>(packed.mutable_data_ptr()), packed.nbytes()};
}

bool is_packed(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor packed_copy(const at::Tensor& tensor) {
  if (is_packed(tensor)) return tensor;
  at::Tensor copy = packed_space(tensor);
  copy_values(tensor, copy);
  return copy;
}

at::Tensor packed_space(const at::Tensor& tensor) {
  if (is_packed(tensor)) return tensor;
  return flat_space(tensor, tensor.numel()).view(tensor.sizes());
}

at::Tensor flat_space(const at::Tensor& like, std::int64_t count) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return at::empty({count}, like.options().requires_grad(false));
}

void copy_values(const at::Tensor& from, const at::Tensor& to) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  to.copy_(from);
}

void scatter_values(const at::Tensor& joined, const std::vector<at::Tensor>& parts) {
  for_each_part(joined, parts, [](const at::Tensor& slice, const at::Tensor& part) { part.copy_(slice); });
}

void gather_values(const std::vector<at::Tensor>& parts, const at::Tensor& joined) {
  for_each_part(joined, parts, [](const at::Tensor& slice, const at::Tensor& part) { slice.copy_(part); });
}

}  // namespace ucxring
