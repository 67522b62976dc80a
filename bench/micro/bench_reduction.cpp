// Speed of the sum kernels on one core. bytes_per_second counts one operand; `sum_in_place` moves three, a
// fold one for each source and each target. docs/benchmarks.md says how to run them.
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

/// Out of place, as in an all-reduce over shared memory. Arguments: bytes of one source, number of sources,
/// and 1 with a second target.
void fold(benchmark::State& state, DataType type) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::vector<std::byte>> sources(static_cast<std::size_t>(state.range(1)),
                                                    std::vector<std::byte>(bytes));
  std::vector<const void*> pointers;
  for (const auto& source : sources) pointers.push_back(source.data());
  std::vector<std::byte> target(bytes), second(bytes);
  const auto sum = ucxring::find_reduction(type, ReduceOp::sum).fold;
  for (auto _ : state) {
    sum(target.data(), state.range(2) != 0 ? second.data() : nullptr, pointers.data(),
        static_cast<int>(pointers.size()), 1.0, bytes / ucxring::size_of(type));
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
  for (const int bytes : {8, 4 << 10, 256 << 10, 16 << 20}) benchmark->Arg(bytes);
}

void folds(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"bytes", "sources", "second"});
  benchmark->ArgsProduct({{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20}, {2, 4, 8}, {0, 1}});
}

BENCHMARK_CAPTURE(sum_in_place, float32, DataType::float32)->Apply(sizes);
BENCHMARK_CAPTURE(sum_in_place, float16, DataType::float16)->Apply(sizes);
BENCHMARK_CAPTURE(sum_in_place, bfloat16, DataType::bfloat16)->Apply(sizes);
BENCHMARK_CAPTURE(sum_in_place, float8_e4m3fn, DataType::float8_e4m3fn)->Apply(sizes);
BENCHMARK(copy)->Apply(sizes);
BENCHMARK_CAPTURE(fold, float32, DataType::float32)->Apply(folds);
BENCHMARK_CAPTURE(fold, bfloat16, DataType::bfloat16)->Apply(folds);

}  // namespace
