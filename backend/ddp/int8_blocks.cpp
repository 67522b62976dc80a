#include "backend/ddp/int8_blocks.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "backend/ddp/int8_kernels.hpp"

namespace ucxring::ddp {
namespace {

constexpr std::int64_t kNumbersOfThread = 1 << 16;  ///< below it a second thread costs more than it saves

int8::Message message_in(const at::Tensor& tensor, std::int64_t size) {
  constexpr std::int64_t kScale = sizeof(float);
  TORCH_CHECK(size > 0 && size % kScale == 0, "the size of a block must be a positive multiple of ", kScale,
              ", not ", size);
  TORCH_CHECK(tensor.is_cpu() && tensor.scalar_type() == at::kChar && tensor.dim() == 2 &&
                  tensor.is_contiguous() && tensor.size(1) % (size + kScale) == 0 &&
                  reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % alignof(float) == 0,
              "a message must be int8, on the CPU, contiguous, aligned, of rows of whole blocks");
  return {tensor.mutable_data_ptr<std::int8_t>(), tensor.size(0), tensor.size(1) / (size + kScale), size};
}

/// The numbers of `tensor`; checks that there are `count`.
float* numbers_in(const at::Tensor& tensor, std::int64_t count) {
  TORCH_CHECK(tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous(),
              "numbers must be float32, on the CPU, contiguous");
  TORCH_CHECK(tensor.numel() == count, "expected ", count, " numbers, not ", tensor.numel());
  return tensor.mutable_data_ptr<float>();
}

float* numbers_in(const std::optional<at::Tensor>& tensor, std::int64_t count) {
  return tensor ? numbers_in(*tensor, count) : nullptr;
}

/// How many numbers of `message` are in `values`.
std::int64_t count_of(const at::Tensor& values, const int8::Message& message) {
  TORCH_CHECK(values.numel() <= message.rows * message.length(), "a message for at most ",
              message.rows * message.length(), " numbers, not ", values.numel());
  return values.numel();
}

/// work(span) for all of `blocks` blocks.
template <class Work>
void in_parallel(std::int64_t blocks, std::int64_t size, const Work& work) {
  const std::int64_t least = std::max<std::int64_t>(1, kNumbersOfThread / size);
  at::parallel_for(0, blocks, least, [&](std::int64_t first, std::int64_t last) {
    work(int8::Span{first, last});
  });
}

}  // namespace

void encode_int8_blocks(const at::Tensor& values, const std::optional<at::Tensor>& added,
                        const at::Tensor& message, std::int64_t size) {
  const int8::Message to = message_in(message, size);
  const std::int64_t count = count_of(values, to);
  float* const numbers = numbers_in(values, count);
  const float* const more = numbers_in(added, count);
  in_parallel(to.rows * to.blocks, size,
              [&](int8::Span span) { int8::encode(to, span, numbers, more, count); });
}

void average_int8_blocks(const at::Tensor& from, double factor, const at::Tensor& total,
                         const std::optional<at::Tensor>& added, const at::Tensor& to, std::int64_t size) {
  const int8::Message source = message_in(from, size), target = message_in(to, size);
  TORCH_CHECK(target.rows == 1 && target.blocks == source.blocks, "expected a message of one row as long");
  float* const sum = numbers_in(total, source.length());
  const float* const more = numbers_in(added, source.length());
  in_parallel(source.blocks, size, [&](int8::Span span) {
    int8::average(source, span, static_cast<float>(factor), sum, more, target);
  });
}

void decode_int8_blocks(const at::Tensor& message, const at::Tensor& values,
                        const std::optional<at::Tensor>& kept, std::int64_t size) {
  const int8::Message from = message_in(message, size);
  const std::int64_t count = count_of(values, from);
  float* const numbers = numbers_in(values, count);
  float* const before = numbers_in(kept, count);
  in_parallel(from.rows * from.blocks, size,
              [&](int8::Span span) { int8::decode(from, span, numbers, before, count); });
}

}  // namespace ucxring::ddp
