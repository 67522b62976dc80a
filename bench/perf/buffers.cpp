#include "bench/perf/buffers.hpp"

#include <algorithm>
#include <new>

#include "transport/registered_buffer.hpp"

namespace ucxring::perf {
namespace {

constexpr std::align_val_t kPage{4096};

Memory allocate(std::size_t bytes, bool registered) {
  if (registered) return {RegisteredBuffer::allocate(bytes).release(), &RegisteredBuffer::free};
  auto* data = static_cast<std::byte*>(::operator new(std::max(bytes, std::size_t{1}), kPage));
  return {data, [](std::byte* memory) { ::operator delete(memory, kPage); }};
}

}  // namespace

Buffers make_buffers(std::size_t bytes, bool registered) {
  return {allocate(bytes, registered), allocate(bytes, registered)};
}

Call make_call(Communicator& communicator, const Benchmark& benchmark, const Problem& problem,
               const Buffers& buffers, bool in_place) {
  const std::size_t input_bytes = Benchmark::size(benchmark.input, problem);
  const std::size_t output_bytes = Benchmark::size(benchmark.output, problem);
  std::byte* input = in_place ? buffers.second.get() : buffers.first.get();
  std::byte* output = buffers.second.get();
  const std::size_t own_part = static_cast<std::size_t>(problem.rank) * problem.part();
  if (in_place && input_bytes < output_bytes) input += own_part;
  if (in_place && output_bytes < input_bytes) output += own_part;
  CallOptions options;
  options.wait_soon = true;
  options.factor = kPremulFactor;
  return {communicator, ConstBuffer(input, input_bytes), Buffer{output, output_bytes}, problem, options};
}

}  // namespace ucxring::perf
