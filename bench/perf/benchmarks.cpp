#include "bench/perf/benchmarks.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace ucxring::perf {
namespace {

/// `start` is a constant, so that the loop holds the call itself and no indirection.
template <auto start>
void repeat_collective(const Call& call, std::uint64_t times) {
  Communicator& communicator = call.communicator;
  for (std::uint64_t i = 0; i < times; ++i) start(communicator, call).wait().throw_if_error();
}

void repeat_memcpy(const Call& call, std::uint64_t times) {
  for (std::uint64_t i = 0; i < times; ++i) {
    std::memcpy(call.output.data, call.input.data, call.input.bytes);
    asm volatile("" : : "r"(call.output.data) : "memory");  // somebody may read the copy
  }
}

constexpr auto kAllReduce = [](Communicator& communicator, const Call& call) {
  return communicator.all_reduce(call.input, call.output, call.problem.type, call.problem.op, call.options);
};
constexpr auto kBroadcast = [](Communicator& communicator, const Call& call) {
  return communicator.broadcast(call.output, call.problem.type, Rank(call.problem.root), call.options);
};
constexpr auto kReduce = [](Communicator& communicator, const Call& call) {
  return communicator.reduce(call.input, call.output, call.problem.type, call.problem.op,
                             Rank(call.problem.root), call.options);
};
constexpr auto kAllGather = [](Communicator& communicator, const Call& call) {
  return communicator.all_gather(call.input, call.output, call.problem.type, call.options);
};
constexpr auto kReduceScatter = [](Communicator& communicator, const Call& call) {
  return communicator.reduce_scatter(call.input, call.output, call.problem.type, call.problem.op,
                                     call.options);
};
constexpr auto kGather = [](Communicator& communicator, const Call& call) {
  return communicator.gather(call.input, call.output, call.problem.type, Rank(call.problem.root),
                             call.options);
};
constexpr auto kScatter = [](Communicator& communicator, const Call& call) {
  return communicator.scatter(call.input, call.output, call.problem.type, Rank(call.problem.root),
                              call.options);
};
constexpr auto kAllToAll = [](Communicator& communicator, const Call& call) {
  return communicator.all_to_all(call.input, call.output, call.problem.type, call.options);
};
constexpr auto kBarrier = [](Communicator& communicator, const Call& call) {
  return communicator.barrier(call.options);
};

double all_but_own(int world_size) { return (world_size - 1.0) / world_size; }
double once(int /*world_size*/) { return 1.0; }

/// The number of this rank's first element in a whole vector.
std::size_t first_of_own_part(const Problem& problem) {
  return static_cast<std::size_t>(problem.rank) * problem.part() / size_of(problem.type);
}

std::vector<Expected> expect_nothing(const Problem& /*problem*/) { return {}; }

std::vector<Expected> expect_reduction(const Problem& problem) {
  return {{0, problem.bytes, reduction(problem.type, problem.op, problem.world_size)}};
}

bool is_root(const Problem& problem) noexcept { return problem.rank == problem.root; }

std::vector<Expected> expect_reduction_at_root(const Problem& problem) {
  return is_root(problem) ? expect_reduction(problem) : expect_nothing(problem);
}

std::vector<Expected> expect_part_of_reduction(const Problem& problem) {
  const Pattern all = reduction(problem.type, problem.op, problem.world_size);
  return {{0, problem.part(), all, first_of_own_part(problem)}};
}

std::vector<Expected> expect_roots(const Problem& problem) {
  return {{0, problem.bytes, arbitrary(problem.type, problem.root)}};
}

std::vector<Expected> expect_own(const Problem& problem) {
  return {{0, problem.bytes, arbitrary(problem.type, problem.rank)}};
}

std::vector<Expected> expect_all(const Problem& problem) {
  std::vector<Expected> all;
  for (int rank = 0; rank < problem.world_size; ++rank) {
    const std::size_t offset = static_cast<std::size_t>(rank) * problem.part();
    all.push_back({offset, problem.part(), arbitrary(problem.type, rank)});
  }
  return all;
}

std::vector<Expected> expect_all_at_root(const Problem& problem) {
  return is_root(problem) ? expect_all(problem) : expect_nothing(problem);
}

std::vector<Expected> expect_part_of_roots(const Problem& problem) {
  return {{0, problem.part(), arbitrary(problem.type, problem.root), first_of_own_part(problem)}};
}

std::vector<Expected> expect_own_part_of_all(const Problem& problem) {
  std::vector<Expected> all = expect_all(problem);
  for (Expected& part : all) part.first = first_of_own_part(problem);
  return all;
}

constexpr std::array kBenchmarks{
    Benchmark{.name = "all_reduce",
              .summary = "every rank gets the reduction of all vectors",
              .reduces = true,
              .bus_factor = [](int world_size) { return 2 * all_but_own(world_size); },
              .repeat = repeat_collective<kAllReduce>,
              .expected = expect_reduction},
    Benchmark{.name = "broadcast",
              .summary = "every rank gets the root's vector; in place only",
              .rooted = true,
              .out_of_place = false,
              .bus_factor = once,
              .repeat = repeat_collective<kBroadcast>,
              .expected = expect_roots},
    Benchmark{.name = "reduce",
              .summary = "the root gets the reduction of all vectors",
              .reduces = true,
              .rooted = true,
              .bus_factor = once,
              .repeat = repeat_collective<kReduce>,
              .expected = expect_reduction_at_root},
    Benchmark{.name = "all_gather",
              .summary = "every rank gets the parts of all ranks",
              .input = Extent::part,
              .bus_factor = all_but_own,
              .repeat = repeat_collective<kAllGather>,
              .expected = expect_all},
    Benchmark{.name = "reduce_scatter",
              .summary = "each rank gets its part of the reduction",
              .output = Extent::part,
              .reduces = true,
              .bus_factor = all_but_own,
              .repeat = repeat_collective<kReduceScatter>,
              .expected = expect_part_of_reduction},
    Benchmark{.name = "gather",
              .summary = "the root gets the parts of all ranks",
              .input = Extent::part,
              .rooted = true,
              .bus_factor = all_but_own,
              .repeat = repeat_collective<kGather>,
              .expected = expect_all_at_root},
    Benchmark{.name = "scatter",
              .summary = "each rank gets its part of the root's vector",
              .output = Extent::part,
              .rooted = true,
              .bus_factor = all_but_own,
              .repeat = repeat_collective<kScatter>,
              .expected = expect_part_of_roots},
    Benchmark{.name = "all_to_all",
              .summary = "each rank gets its part of every rank's vector; out of place only",
              .divided = true,
              .in_place = false,
              .bus_factor = all_but_own,
              .repeat = repeat_collective<kAllToAll>,
              .expected = expect_own_part_of_all},
    Benchmark{.name = "barrier",
              .summary = "returns once all ranks have come; has no size",
              .input = Extent::nothing,
              .output = Extent::nothing,
              .in_place = false,
              .bus_factor = once,
              .repeat = repeat_collective<kBarrier>,
              .expected = expect_nothing},
    Benchmark{
        .name = "memcpy",
        .summary = "no collective: each rank copies a vector, all at the same time; the bound of the memory",
        .in_place = false,
        .bus_factor = once,
        .repeat = repeat_memcpy,
        .expected = expect_own},
};

}  // namespace

std::size_t Benchmark::size(Extent extent, const Problem& problem) noexcept {
  if (extent == Extent::nothing) return 0;
  return extent == Extent::part ? problem.part() : problem.bytes;
}

std::size_t Benchmark::round(std::size_t bytes, DataType type, int world_size) const noexcept {
  if (input == Extent::nothing && output == Extent::nothing) return 0;
  const bool in_parts = divided || input == Extent::part || output == Extent::part;
  const std::size_t unit = size_of(type) * (in_parts ? static_cast<std::size_t>(world_size) : 1);
  return std::max(bytes / unit, std::size_t{1}) * unit;
}

std::size_t Benchmark::count(const Problem& problem) const noexcept {
  return std::min(size(input, problem), size(output, problem)) / size_of(problem.type);
}

Pattern Benchmark::input_pattern(const Problem& problem) const {
  return reduces ? contribution(problem.type, problem.op, problem.rank, problem.world_size)
                 : arbitrary(problem.type, problem.rank);
}

std::span<const Benchmark> benchmarks() noexcept { return kBenchmarks; }

const Benchmark* find_benchmark(std::string_view name) noexcept {
  const auto found = std::find_if(kBenchmarks.begin(), kBenchmarks.end(),
                                  [&](const Benchmark& each) { return each.name == name; });
  return found == kBenchmarks.end() ? nullptr : &*found;
}

}  // namespace ucxring::perf
