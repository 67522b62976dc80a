#include "collectives/reduce/table.hpp"

#include <fmt/format.h>

#include <array>
#include <span>

#include "collectives/reduce/cpu_kernels.hpp"
#include "transport/base/error.hpp"

namespace ucxring {
namespace {

constexpr std::array kFamilies{&cpu::float_rows, &cpu::narrow_float_rows, &cpu::integer_rows};

/// The kernels of a pair, all null when it has no meaning.
Reduction look_up(DataType type, ReduceOp op) {
  if (static_cast<std::size_t>(op) >= std::size_t{kReduceOps}) return {};
  for (const auto family : kFamilies) {
    for (const cpu::Row& row : family()) {
      if (row.type == type) return row[op];
    }
  }
  return {};
}

std::string_view remedy(ReduceOp op) {
  switch (op) {
    case ReduceOp::average:
    case ReduceOp::premul_sum:
      return "use sum and scale the result, or convert to a floating type first";
    case ReduceOp::min:
    case ReduceOp::max:
      return "complex numbers have no order; reduce their absolute values";
    case ReduceOp::bit_and:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor:
      return "bit operations need an integer type or bool; view the buffer as one";
    default:
      return "check the arguments: no such type or operation exists";
  }
}

}  // namespace

Reduction find_reduction(DataType type, ReduceOp op, MemoryKind kind) {
  if (kind != MemoryKind::host) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("reduction {} of {} in cuda memory is not in this build; copy the buffer to the host",
                    to_string(op), to_string(type)));
  }
  const Reduction found = look_up(type, op);
  if (found.combine == nullptr) {
    throw Error(ErrorCode::unsupported, fmt::format("reduction {} is not defined for {}: {}", to_string(op),
                                                    to_string(type), remedy(op)));
  }
  return found;
}

bool supports_reduction(DataType type, ReduceOp op) noexcept { return look_up(type, op).combine != nullptr; }

}  // namespace ucxring
