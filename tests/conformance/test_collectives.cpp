// Every algorithm × 1…16 ranks × edge counts × dtypes × ops, on the simulator and over loopback threads, with
// exact inputs.
#include <gtest/gtest.h>

#include <set>

#include "tests/conformance/collective_cases.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/ranks.hpp"
#include "transport/loopback/loopback.hpp"
#include "transport/mixed/mixed.hpp"

namespace ucxring::testing {
namespace {

constexpr std::size_t kSlice = 128;  // small, so that small buffers already have many lanes
#ifdef __SANITIZE_ADDRESS__
constexpr int kMostRanks = 6;  // a sanitizer looks for other mistakes, and makes each rank dear
#else
constexpr int kMostRanks = 16;
#endif

Communicator::Options options_for(const Algorithm& algorithm) {
  auto options = test_options();
  options.config.algorithm = only(algorithm);
  options.config.slice_bytes = kSlice;
  options.config.lanes = 3;
  return options;
}

void run_simulated(SimulatedGroup& group, const CollectiveCase& shape) {
  std::vector<CaseBuffers> buffers;
  for (int rank = 0; rank < group.world_size(); ++rank) buffers.emplace_back(shape, rank, group.world_size());
  const auto outcomes = group.run([&](Communicator& communicator) {
    return buffers[static_cast<std::size_t>(communicator.rank().value)].start(communicator);
  });
  for (int rank = 0; rank < group.world_size(); ++rank) {
    const auto& outcome = outcomes[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(outcome.ok()) << shape.describe() << ", rank " << rank << ": " << outcome.message();
    ASSERT_EQ(buffers[static_cast<std::size_t>(rank)].check(), "")
        << shape.describe() << " of " << group.world_size();
  }
}

void run(Communicator& communicator, const CollectiveCase& shape) {
  CaseBuffers buffers(shape, communicator.rank().value, communicator.world_size());
  const auto outcome = buffers.start(communicator).wait();
  ASSERT_TRUE(outcome.ok()) << shape.describe() << ": " << outcome.message();
  ASSERT_EQ(buffers.check(), "") << shape.describe() << " of " << communicator.world_size();
}

/// Every dtype and op where `collective` reduces, one for all where it does not.
std::vector<TypeAndOp> reductions_of(Collective collective, int world_size) {
  if (!reduces(collective)) return {{DataType::int16, ReduceOp::sum}};
  auto all = all_reductions();
  std::erase_if(all, [&](const auto& each) { return !has_exact_inputs(each.op, each.type, world_size); });
  return all;
}

std::set<int> roots_of(Collective collective, int world_size) {
  if (!is_rooted(collective)) return {0};
  return {0, world_size - 1};
}

/// The cases of one algorithm at one world size: every dtype and op for one root, one of them for others.
std::vector<CollectiveCase> cases_of(const Algorithm& algorithm, int world_size) {
  const Collective collective = algorithm.collective;
  std::vector<CollectiveCase> cases;
  for (const std::size_t count : edge_counts(world_size, kSlice)) {
    for (const bool in_place : {false, true}) {
      for (const auto& [type, op] : reductions_of(collective, world_size)) {
        cases.push_back({collective, type, op, count, is_rooted(collective) ? world_size / 2 : 0, in_place});
      }
      for (const int root : roots_of(collective, world_size)) {
        cases.push_back({collective, DataType::int32, ReduceOp::sum, count, root, in_place});
        if (!algorithm.uneven) continue;
        cases.push_back({collective, DataType::int32, ReduceOp::sum, count, root, in_place, true});
      }
    }
  }
  return cases;
}

/// Whether `algorithm` is for groups on several hosts, some of which have several ranks, only.
bool needs_hosts(const Algorithm& algorithm) { return !algorithm.supports({Rank(0), 8}); }

/// A simulated group: its ranks, and how many of them share a host.
using Size = std::pair<int, int>;

std::vector<Size> simulated_sizes(const Algorithm& algorithm) {
  if (needs_hosts(algorithm))
    return {{3, 2}, {4, 2}, {5, 3}, {6, 4}, {kMostRanks / 2 + 1, 3}, {kMostRanks, 4}};
  std::vector<Size> sizes;
  for (int world_size = 1; world_size <= kMostRanks; ++world_size) {
    if (world_size == 1 || algorithm.supports({Rank(0), world_size})) sizes.emplace_back(world_size, 1);
  }
  return sizes;
}

std::vector<Layout> thread_layouts(const Algorithm& algorithm) {
  if (needs_hosts(algorithm)) {
    return {{0, 0, 1},          {0, 1, 0, 1},          {0, 1, 2, 1},
            {0, 0, 1, 1, 1, 2}, {0, 1, 1, 2, 0, 1, 0}, {0, 0, 0, 0, 1, 1, 1, 1},
            even_layout(16, 5)};
  }
  std::vector<Layout> layouts;
  for (const int world_size : {1, 2, 3, 4, 5, 8, 16}) {
    if (world_size == 1 || algorithm.supports({Rank(0), world_size}))
      layouts.push_back(even_layout(world_size, 1));
  }
  return layouts;
}

class EveryAlgorithm : public ::testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, IsExactOnTheSimulator) {
  const auto& algorithm = GetParam();
  for (const auto& [world_size, ranks_per_host] : simulated_sizes(algorithm)) {
    sim::Options network;
    network.world_size = world_size;
    network.ranks_per_host = ranks_per_host;
    network.jitter = std::chrono::microseconds(20);
    network.seed = static_cast<std::uint64_t>(world_size);
    SimulatedGroup group(network, options_for(algorithm));
    for (const auto& shape : cases_of(algorithm, world_size)) {
      ASSERT_NO_FATAL_FAILURE(run_simulated(group, shape));
    }
  }
}

/// What threads are asked for: everything among few ranks, one dtype among many.
std::vector<CollectiveCase> thread_cases_of(const Algorithm& algorithm, int world_size) {
  constexpr int kFewRanks = 4;
  auto cases = cases_of(algorithm, world_size);
  if (world_size > kFewRanks && reduces(algorithm.collective)) {
    std::erase_if(cases, [](const auto& shape) {
      return !shape.uneven && (shape.type != DataType::float32 || shape.op != ReduceOp::sum);
    });
  }
  return cases;
}

TEST_P(EveryAlgorithm, IsExactOnThreads) {
  const auto& algorithm = GetParam();
  for (const Layout& layout : thread_layouts(algorithm)) {
    const int world_size = static_cast<int>(layout.size());
    run_on_threads(
        world_size, options_for(algorithm),
        [&](Communicator& communicator) {
          for (const auto& shape : thread_cases_of(algorithm, world_size)) run(communicator, shape);
        },
        layout);
  }
}

TEST(MixedTransport, RunsEveryCollective) {
  const Layout layout{0, 1, 0, 2, 1};
  const int world_size = static_cast<int>(layout.size());
  const auto near = loopback::make_hub(world_size, layout);
  const auto far = loopback::make_hub(world_size);
  const auto join = [&](Rank rank) {
    return mixed::create(loopback::create(near, rank), loopback::create(far, rank));
  };
  run_on_threads(world_size, join, test_options(), [&](Communicator& communicator) {
    for (int collective = 0; collective < kCollectives; ++collective) {
      for (const std::size_t count : {1, 300, 100'000}) {
        run(communicator, {static_cast<Collective>(collective), DataType::int32, ReduceOp::sum, count, 3});
      }
    }
  });
}

TEST_P(EveryAlgorithm, RunsManyOperationsAtOnce) {
  const auto& algorithm = GetParam();
  sim::Options network;
  network.world_size = 4;
  network.ranks_per_host = needs_hosts(algorithm) ? 2 : 1;
  SimulatedGroup group(network, options_for(algorithm));
  constexpr int kOperations = 100;
  std::vector<CaseBuffers> buffers;
  std::vector<Operation> operations;
  for (int i = 0; i < kOperations; ++i) {
    for (int rank = 0; rank < group.world_size(); ++rank) {
      const CollectiveCase shape{algorithm.collective, DataType::int32, ReduceOp::sum,
                                 static_cast<std::size_t>(i), i % 4};
      buffers.emplace_back(shape, rank, group.world_size());
    }
  }
  for (std::size_t i = 0; i < buffers.size(); ++i)
    operations.push_back(buffers[i].start(group.rank(static_cast<int>(i % 4))));
  for (auto operation = operations.rbegin(); operation != operations.rend(); ++operation) {
    ASSERT_TRUE(operation->wait().ok());
  }
  for (const auto& buffer : buffers) ASSERT_EQ(buffer.check(), "");
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithm,
                         ::testing::ValuesIn(algorithms().begin(), algorithms().end()), [](const auto& test) {
                           return std::string(to_string(test.param.collective)) + "_" +
                                  std::string(test.param.name);
                         });

}  // namespace
}  // namespace ucxring::testing
