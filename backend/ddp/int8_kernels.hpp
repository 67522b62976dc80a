#pragma once

#include <cstdint>

namespace ucxring::ddp::int8 {

/// A message in memory: rows, one per rank, of int8 codes in blocks, behind which lie the float32 scales of
/// the blocks. A number is its code times the scale of its block, the largest magnitude in it over 127; codes
/// are rounded to nearest, ties to even. A view: the caller owns `data`, which is aligned as float is.
struct Message {
  std::int8_t* data;
  std::int64_t rows;
  std::int64_t blocks;  ///< of a row
  std::int64_t size;    ///< numbers of a block, a multiple of 4

  /// The codes of block `index`; blocks are counted through all rows, so number i is in block i / size.
  [[nodiscard]] std::int8_t* codes(std::int64_t index) const {
    return data + index / blocks * row_bytes() + index % blocks * size;
  }
  [[nodiscard]] float& scale(std::int64_t index) const {
    return reinterpret_cast<float*>(data + index / blocks * row_bytes() + length())[index % blocks];
  }
  [[nodiscard]] std::int64_t length() const { return blocks * size; }  ///< numbers of a row
  [[nodiscard]] std::int64_t row_bytes() const {
    return length() + blocks * static_cast<std::int64_t>(sizeof(float));
  }
};

/// The blocks [first, last) that a call works on. Calls with blocks of their own may run at the same time.
struct Span {
  std::int64_t first, last;
};

// One pass over memory each, with the widest vectors that the processor has; the results do not depend on
// which. `values` are all numbers of the message, `count` of them; numbers behind them are zeros.

/// Writes values + added (if not null) into the message and leaves in `values` their error: what a reader of
/// the message does not get. A block with infinity gets that for its scale, one with NaN NaN, both codes of
/// 0: it is read as NaN. The values of such a block have no error: they stay sums.
void encode(const Message& message, Span span, float* values, const float* added, std::int64_t count);

/// Writes the sum of all rows of `from`, times `factor`, to `total`, and encodes that, plus `added`, into
/// `to` of one row, as `encode` does. `span` counts the blocks of a row.
void average(const Message& from, Span span, float factor, float* total, const float* added,
             const Message& to);

/// Writes the numbers of the message to `values`, after it has moved to `kept` (if not null) what was in
/// there.
void decode(const Message& message, Span span, float* values, float* kept, std::int64_t count);

}  // namespace ucxring::ddp::int8
