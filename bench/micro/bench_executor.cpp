// The executor and what surrounds it, all ranks in one thread: what an operation costs, without any waiting.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/micro/shm_group.hpp"
#include "collectives/communicator.hpp"
#include "collectives/plan.hpp"
#include "transport/loopback/loopback.hpp"

namespace ucxring::bench {
namespace {

enum class Over : std::int64_t { shared_memory, loopback };

/// A group whose engine has no thread of its own.
class Ranks {
 public:
  Ranks(int world_size, Over over) {
    Communicator::Options options;
    options.timeout = std::chrono::seconds(60);
    auto transports = over == Over::shared_memory ? make_shm_group(world_size) : make_loopback(world_size);
    for (auto& transport : transports) {
      communicators_.push_back(std::make_unique<Communicator>(std::move(transport), engine_, options));
    }
  }

  [[nodiscard]] std::vector<std::unique_ptr<Communicator>>& all() noexcept { return communicators_; }

 private:
  static std::vector<std::unique_ptr<Transport>> make_loopback(int world_size) {
    const auto hub = loopback::make_hub(world_size);
    std::vector<std::unique_ptr<Transport>> ranks;
    for (int rank = 0; rank < world_size; ++rank) ranks.push_back(loopback::create(hub, Rank(rank)));
    return ranks;
  }

  Engine engine_{{std::chrono::microseconds(0), false}};
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

/// One all_reduce of all ranks: started on each in turn, then driven to its end.
void all_reduce(benchmark::State& state, Over over) {
  const auto world_size = static_cast<int>(state.range(1));
  Ranks ranks(world_size, over);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<float>> data(static_cast<std::size_t>(world_size));
  for (auto& each : data) each.resize(bytes / sizeof(float));
  std::vector<Operation> operations(data.size());
  for (auto _ : state) {
    for (std::size_t rank = 0; rank < data.size(); ++rank) {
      const Buffer buffer{reinterpret_cast<std::byte*>(data[rank].data()), bytes};
      operations[rank] = ranks.all()[rank]->all_reduce(buffer, buffer, DataType::float32, ReduceOp::sum);
    }
    for (const Operation& operation : operations) operation.wait().throw_if_error();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK_CAPTURE(all_reduce, shared_memory, Over::shared_memory)
    ->ArgNames({"bytes", "ranks"})
    ->ArgsProduct({{8, 1024, 65536, 4 << 20}, {1, 2, 4}});
BENCHMARK_CAPTURE(all_reduce, loopback, Over::loopback)
    ->ArgNames({"bytes", "ranks"})
    ->ArgsProduct({{8, 1024, 65536, 4 << 20}, {2, 4}});

/// Making the plan of a shape that has not been seen before.
void make_a_plan(benchmark::State& state) {
  PlanEnvironment environment;
  environment.rank = Rank(0);
  environment.world_size = static_cast<int>(state.range(0));
  for (int host = 0; host < environment.world_size; ++host) environment.hosts.push_back(host);
  const Algorithm* const ring = find_algorithm(Collective::all_reduce, "ring");
  const Fingerprint fingerprint{Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, 1 << 20};
  for (auto _ : state) benchmark::DoNotOptimize(make_plan(fingerprint, environment, ring));
}
BENCHMARK(make_a_plan)->ArgName("ranks")->Arg(2)->Arg(8)->Arg(64);

}  // namespace
}  // namespace ucxring::bench
