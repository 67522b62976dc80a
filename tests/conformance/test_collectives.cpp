// Every algorithm × 1…16 ranks × edge counts × dtypes × ops, on the simulator and over loopback threads, with
// exact inputs.
#include <gtest/gtest.h>

#include "tests/conformance/collective_cases.hpp"
#include "tests/support/ranks.hpp"

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

/// The cases of one collective at one world size.
std::vector<CollectiveCase> cases_of(Collective collective, int world_size) {
  std::vector<CollectiveCase> cases;
  for (const std::size_t count : edge_counts(world_size, kSlice)) {
    for (const bool in_place : {false, true}) {
      if (reduces(collective)) {
        for (const auto& [type, op] : all_reductions()) {
          if (has_exact_inputs(op, type, world_size))
            cases.push_back({collective, type, op, count, 0, in_place});
        }
      } else if (collective == Collective::broadcast) {
        for (const int root : {0, world_size / 2, world_size - 1}) {
          cases.push_back({collective, DataType::int16, ReduceOp::sum, count, root, true});
        }
      } else {
        cases.push_back({collective, DataType::float32, ReduceOp::sum, count, 0, in_place});
      }
    }
  }
  return cases;
}

class EveryAlgorithm : public ::testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, IsExactOnTheSimulator) {
  const auto& algorithm = GetParam();
  for (int world_size = 1; world_size <= kMostRanks; ++world_size) {
    if (world_size > 1 && !algorithm.supports(world_size)) continue;
    sim::Options network;
    network.world_size = world_size;
    network.jitter = std::chrono::microseconds(20);
    network.seed = static_cast<std::uint64_t>(world_size);
    SimulatedGroup group(network, options_for(algorithm));
    for (const auto& shape : cases_of(algorithm.collective, world_size)) {
      ASSERT_NO_FATAL_FAILURE(run_simulated(group, shape));
    }
  }
}

/// What threads are asked for: everything among few ranks, one dtype among many.
std::vector<CollectiveCase> thread_cases_of(Collective collective, int world_size) {
  constexpr int kFewRanks = 4;
  auto cases = cases_of(collective, world_size);
  if (world_size > kFewRanks && reduces(collective)) {
    std::erase_if(cases, [](const auto& shape) {
      return shape.type != DataType::float32 || shape.op != ReduceOp::sum;
    });
  }
  return cases;
}

TEST_P(EveryAlgorithm, IsExactOnThreads) {
  const auto& algorithm = GetParam();
  for (const int world_size : {1, 2, 3, 4, 5, 8, 16}) {
    if (world_size > 1 && !algorithm.supports(world_size)) continue;
    run_on_threads(world_size, options_for(algorithm), [&](Communicator& communicator) {
      for (const auto& shape : thread_cases_of(algorithm.collective, world_size)) {
        CaseBuffers buffers(shape, communicator.rank().value, world_size);
        const auto outcome = buffers.start(communicator).wait();
        ASSERT_TRUE(outcome.ok()) << shape.describe() << ": " << outcome.message();
        ASSERT_EQ(buffers.check(), "") << shape.describe() << " of " << world_size;
      }
    });
  }
}

TEST_P(EveryAlgorithm, RunsManyOperationsAtOnce) {
  const auto& algorithm = GetParam();
  SimulatedGroup group(4, options_for(algorithm));
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
