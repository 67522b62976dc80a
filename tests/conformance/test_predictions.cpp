// What the cost model predicts, against the simulated network: the same schedules, run by the executor in
// virtual time.
#include <gtest/gtest.h>

#include "collectives/cost_model.hpp"
#include "tests/conformance/collective_cases.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/schedules.hpp"

namespace ucxring::testing {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr double kFactor = 2.0;

/// The parameters of the cost model that say the same as the options of the simulator.
CostParameters parameters_of(const sim::Options& network) {
  const auto nanoseconds = [](Duration duration) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  };
  const auto rate = [](double bytes_per_second) { return static_cast<std::int64_t>(bytes_per_second / 1e6); };
  CostParameters parameters;
  parameters.far = {.latency_ns = nanoseconds(network.latency),
                    .overhead_ns = nanoseconds(network.overhead) / 2,
                    .wire_bytes_per_us = rate(network.bandwidth)};
  parameters.near = {.latency_ns = nanoseconds(network.host_latency),
                     .overhead_ns = nanoseconds(network.overhead) / 2,
                     .send_bytes_per_us = rate(network.host_bandwidth)};
  parameters.reduce_bytes_per_us = 0;
  return parameters;
}

/// What one rank works on.
struct Memory {
  std::vector<std::byte> large;
  std::vector<std::byte> other;
  std::vector<std::byte> small;
};

Operation start(Communicator& communicator, Collective collective, Memory& memory) {
  const Buffer whole{memory.large.data(), memory.large.size()};
  const Buffer other{memory.other.data(), memory.other.size()};
  const Buffer part{memory.small.data(), memory.small.size()};
  switch (collective) {
    case Collective::all_reduce:
      return communicator.all_reduce(whole, whole, DataType::uint8, ReduceOp::max);
    case Collective::broadcast:
      return communicator.broadcast(whole, DataType::uint8, Rank(0));
    case Collective::reduce:
      return communicator.reduce(whole, whole, DataType::uint8, ReduceOp::max, Rank(0));
    case Collective::all_gather:
      return communicator.all_gather(part, whole, DataType::uint8);
    case Collective::reduce_scatter:
      return communicator.reduce_scatter(whole, part, DataType::uint8, ReduceOp::max);
    case Collective::gather:
      return communicator.gather(part, whole, DataType::uint8, Rank(0));
    case Collective::scatter:
      return communicator.scatter(whole, part, DataType::uint8, Rank(0));
    case Collective::all_to_all:
      return communicator.all_to_all(whole, other, DataType::uint8);
    case Collective::barrier:
      return communicator.barrier();
  }
  return {};
}

/// How long the executor takes for one operation of `bytes` bytes (the larger of input and output).
double simulated_microseconds(const Algorithm& algorithm, const sim::Options& network, std::size_t bytes) {
  auto options = test_options();
  options.config.algorithm = only(algorithm);
  SimulatedGroup group(network, options);
  const auto ranks = static_cast<std::size_t>(network.world_size);
  const std::vector<std::byte> whole(bytes / ranks * ranks);
  std::vector<Memory> memory(ranks, {whole, whole, std::vector<std::byte>(bytes / ranks)});
  const auto outcomes = group.run([&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank().value);
    return start(communicator, algorithm.collective, memory[rank]);
  });
  for (const Status& status : outcomes) status.throw_if_error();
  return std::chrono::duration<double, std::micro>(group.network().elapsed()).count();
}

class EveryPrediction : public ::testing::TestWithParam<Algorithm> {
 protected:
  static void expect_near(const Algorithm& algorithm, int world_size, int per_host, std::size_t bytes) {
    sim::Options network;
    network.world_size = world_size;
    network.ranks_per_host = per_host;
    network.eager_bytes = 1024 * kKiB;  // the model knows no rendezvous
    const Layout hosts = even_layout(world_size, per_host);
    if (!algorithm.supports({Rank(0), world_size, Rank(0), hosts})) return;
    const auto schedules = schedules_of(algorithm, world_size, Rank(0), hosts);
    const Cost cost =
        predict({.schedules = schedules, .hosts = hosts, .bytes = bytes}, parameters_of(network));
    const double predicted = std::chrono::duration<double, std::micro>(cost).count();
    const double simulated = simulated_microseconds(algorithm, network, bytes);
    EXPECT_LT(predicted, kFactor * simulated)
        << bytes << " bytes among " << world_size << ", " << per_host << " a host";
    EXPECT_GT(predicted, simulated / kFactor)
        << bytes << " bytes among " << world_size << ", " << per_host << " a host";
  }
};

TEST_P(EveryPrediction, IsNearTheSimulatedTime) {
  const bool moves_bytes = GetParam().collective != Collective::barrier;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{192}, 96 * kKiB, 3 * 1024 * kKiB}) {
    if (bytes > 0 && !moves_bytes) continue;
    for (const int world_size : {2, 3, 8}) expect_near(GetParam(), world_size, 1, bytes);
    expect_near(GetParam(), 6, 2, bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPrediction,
                         ::testing::ValuesIn(algorithms().begin(), algorithms().end()), [](const auto& test) {
                           return std::string(to_string(test.param.collective)) + "_" +
                                  std::string(test.param.name);
                         });

}  // namespace
}  // namespace ucxring::testing
