// Speed of the sum kernels on one core, in place: bytes_per_second counts one operand, of which three are
// moved.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "collectives/reduce/table.hpp"

namespace {

using ucxring::DataType;
using ucxring::ReduceOp;

/// Zeros keep every type free of NaN and overflow however often they are summed.
void sum_in_place(benchmark::State& state, DataType type) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> target(bytes), other(bytes);
  const auto sum = ucxring::find_reduction(type, ReduceOp::sum).combine;
  for (auto _ : state) {
    sum(target.data(), target.data(), other.data(), bytes / ucxring::size_of(type));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

/// What the memory allows: a copy of the same size.
void copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> target(bytes), source(bytes);
  for (auto _ : state) {
    std::memcpy(target.data(), source.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int bytes : {4 << 10, 256 << 10, 16 << 20}) benchmark->Arg(bytes);
}

BENCHMARK_CAPTURE(sum_in_place, float32, DataType::float32)->Apply(sizes);
BENCHMARK_CAPTURE(sum_in_place, float16, DataType::float16)->Apply(sizes);
BENCHMARK_CAPTURE(sum_in_place, bfloat16, DataType::bfloat16)->Apply(sizes);
BENCHMARK_CAPTURE(sum_in_place, float8_e4m3fn, DataType::float8_e4m3fn)->Apply(sizes);
BENCHMARK(copy)->Apply(sizes);

}  // namespace
