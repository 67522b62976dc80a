// Element types and reduction operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ucxring {

/// Element type of a buffer.
enum class DataType : std::uint8_t {
  float64,
  float32,
  float16,
  bfloat16,
  float8_e4m3fn,
  float8_e5m2,
  int8,
  uint8,
  int16,
  int32,
  int64,
  uint16,
  uint32,
  uint64,
  boolean,
  complex64,
  complex128,
};
inline constexpr int kDataTypes = 17;

/// How contributions are combined. `average` is the sum divided by the world size (floating and complex
/// types); `premul_sum` multiplies each rank's input by that rank's factor first.
enum class ReduceOp : std::uint8_t {
  sum,
  average,
  product,
  min,
  max,
  bit_and,
  bit_or,
  bit_xor,
  premul_sum,
};
inline constexpr int kReduceOps = 9;

/// Size of one element in bytes.
[[nodiscard]] std::size_t size_of(DataType type) noexcept;
/// Lower-case name, e.g. "float32".
[[nodiscard]] std::string_view to_string(DataType type) noexcept;
/// Lower-case name, e.g. "sum".
[[nodiscard]] std::string_view to_string(ReduceOp op) noexcept;

}  // namespace ucxring
