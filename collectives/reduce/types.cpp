#include "collectives/reduce/types.hpp"

#include <array>

namespace ucxring {
namespace {

struct TypeInfo {
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<TypeInfo, kDataTypes> kTypes{{
    {"float64", 8},
    {"float32", 4},
    {"float16", 2},
    {"bfloat16", 2},
    {"float8_e4m3fn", 1},
    {"float8_e5m2", 1},
    {"int8", 1},
    {"uint8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"bool", 1},
    {"complex64", 8},
    {"complex128", 16},
}};

constexpr std::array<std::string_view, kReduceOps> kOps{
    "sum", "average", "product", "min", "max", "bit_and", "bit_or", "bit_xor", "premul_sum",
};

}  // namespace

std::size_t size_of(DataType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? kTypes[index].bytes : 0;
}

std::string_view to_string(DataType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? kTypes[index].name : "unknown type";
}

std::string_view to_string(ReduceOp op) noexcept {
  const auto index = static_cast<std::size_t>(op);
  return index < kOps.size() ? kOps[index] : "unknown op";
}

}  // namespace ucxring
