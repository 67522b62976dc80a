// Every algorithm of one host over shared memory: at once in the caller's thread, through the executor, and
// with ranks that do one and the other; from ordinary and from registered memory.
#include <gtest/gtest.h>

#include "collectives/algorithms/direct.hpp"
#include "tests/conformance/collective_cases.hpp"
#include "tests/support/ranks.hpp"
#include "transport/registered_buffer.hpp"
#include "transport/shm/shm.hpp"

namespace ucxring::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A sanitizer looks for other mistakes, and makes each rank and case dear; test_fold has all kernels under
// it.
const std::vector<int> kWorldSizes{2, 3};
constexpr bool kEveryReduction = false;
#else
const std::vector<int> kWorldSizes{1, 2, 3, 4, 8};
constexpr bool kEveryReduction = true;
#endif
constexpr std::size_t kSmallSlice = 4096;  // so that buffers of moderate size already have many lanes

void run_on_one_host(int world_size, const Communicator::Options& options,
                     const std::function<void(Communicator&)>& body) {
  const auto store = make_memory_store();
  const auto join = [&](Rank rank) {
    auto joined =
        shm::join(shm::make_context(), store, rank, world_size, std::chrono::seconds(60), options.config);
    EXPECT_EQ(joined.transport->hosts(), std::vector<int>(static_cast<std::size_t>(world_size), 0));
    return std::move(joined.transport);
  };
  run_on_threads(world_size, join, options, body);
}

std::vector<CollectiveCase> cases_of(const Algorithm& algorithm, int world_size, std::size_t slice) {
  const Collective collective = algorithm.collective;
  const int root = is_rooted(collective) ? world_size - 1 : 0;
  std::vector<CollectiveCase> cases;
  for (const std::size_t count : edge_counts(world_size, slice)) {
    for (const bool in_place : {false, true}) {
      if (algorithm.uneven) {
        cases.push_back({collective, DataType::int32, ReduceOp::sum, count, root, in_place, true});
      }
      if (!reduces(collective)) {
        cases.push_back({collective, DataType::int16, ReduceOp::sum, count, root, in_place});
        continue;
      }
      for (const auto& [type, op] : all_reductions()) {
        const bool usual = (type == DataType::float32 && op == ReduceOp::sum) ||
                           (type == DataType::bfloat16 && op == ReduceOp::average);
        if (!usual && (world_size > 4 || !kEveryReduction)) continue;
        if (has_exact_inputs(op, type, world_size))
          cases.push_back({collective, type, op, count, root, in_place});
      }
    }
  }
  return cases;
}

class EveryAlgorithmInOneHost : public ::testing::TestWithParam<Algorithm> {
 protected:
  /// Runs every case; `wait_soon(rank)` says whether a rank runs it at once.
  static void run_cases(std::size_t slice, bool (*wait_soon)(int rank)) {
    const Algorithm& algorithm = GetParam();
    for (const int world_size : kWorldSizes) {
      const std::vector<int> hosts(static_cast<std::size_t>(world_size), 0);
      if (world_size > 1 && !algorithm.supports({Rank(0), world_size, Rank(0), hosts})) continue;
      auto options = test_options();
      options.config.algorithm = only(algorithm);
      options.config.slice_bytes = slice;
      run_on_one_host(world_size, options, [&](Communicator& communicator) {
        const int rank = communicator.rank().value;
        for (const auto& shape : cases_of(algorithm, world_size, kSmallSlice)) {
          CaseBuffers buffers(shape, rank, world_size);
          const auto outcome = buffers.start(communicator, wait_soon(rank)).wait();
          ASSERT_TRUE(outcome.ok()) << shape.describe() << ": " << outcome.message();
          ASSERT_EQ(buffers.check(), "") << shape.describe() << " of " << world_size;
        }
      });
    }
  }
};

TEST_P(EveryAlgorithmInOneHost, IsExactAtOnce) {
  run_cases(0, [](int) { return true; });
}

TEST_P(EveryAlgorithmInOneHost, IsExactInManyLanes) {
  run_cases(kSmallSlice, [](int) { return false; });
}

TEST_P(EveryAlgorithmInOneHost, IsExactWhenRanksDiffer) {
  run_cases(0, [](int rank) { return rank % 2 == 0; });
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithmInOneHost,
                         ::testing::ValuesIn(algorithms().begin(), algorithms().end()), [](const auto& test) {
                           return std::string(to_string(test.param.collective)) + "_" +
                                  std::string(test.param.name);
                         });

/// A value that sums exactly.
float value_of(int rank, std::size_t i) {
  return static_cast<float>((i + static_cast<std::size_t>(rank)) % 97);
}

class RegisteredMemory : public ::testing::TestWithParam<const char*> {};

/// In place and apart, on ranks of which some use registered memory; large enough to be sent without a copy.
TEST_P(RegisteredMemory, IsReducedWhereItLies) {
  constexpr std::size_t kCount = kEveryReduction ? 1'500'007 : 300'007;
  for (const int world_size : {2, 3, 4}) {
    auto options = test_options();
    options.config.algorithm = GetParam();
    run_on_one_host(world_size, options, [&](Communicator& communicator) {
      const int rank = communicator.rank().value;
      for (int mode = 0; mode < 4; ++mode) {
        const auto registered = RegisteredBuffer::allocate(kCount * sizeof(float));
        std::vector<float> ordinary(kCount);
        const bool uses_registered = mode != 3 || rank % 2 == 0;
        const auto target = uses_registered ? registered.span<float>() : std::span<float>(ordinary);
        std::vector<float> apart;
        for (std::size_t i = 0; i < kCount; ++i) target[i] = value_of(rank, i);
        const bool in_place = mode != 1;
        std::span<float> output = target;
        if (!in_place) output = apart = std::vector<float>(kCount);
        const ConstBuffer from(std::as_bytes(target).data(), kCount * sizeof(float));
        const Buffer to{std::as_writable_bytes(output).data(), kCount * sizeof(float)};
        CallOptions call;
        call.wait_soon = mode == 2;
        ASSERT_TRUE(communicator.all_reduce(from, to, DataType::float32, ReduceOp::sum, call).wait().ok());
        std::size_t wrong = 0;
        std::size_t modified = 0;
        for (std::size_t i = 0; i < kCount; ++i) {
          float want = 0;
          for (int other = 0; other < world_size; ++other) want += value_of(other, i);
          wrong += output[i] != want ? 1U : 0U;
          modified += target[i] != (in_place ? want : value_of(rank, i)) ? 1U : 0U;
        }
        ASSERT_EQ(wrong, 0U) << "elements, mode " << mode << ", rank " << rank;
        ASSERT_EQ(modified, 0U) << "elements of the input, mode " << mode << ", rank " << rank;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, RegisteredMemory,
                         ::testing::Values("all_reduce:direct", "all_reduce:direct_two_shot",
                                           "all_reduce:ring", "all_reduce:recursive_doubling"),
                         [](const auto& test) {
                           return std::string(test.param + sizeof("all_reduce:") - 1);
                         });

/// Half types are summed in float over all contributions and rounded once, on every rank alike.
TEST(OneHost, RoundsHalfTypesOnce) {
  run_on_one_host(4, test_options(), [](Communicator& communicator) {
    // 256 + 1 + 1 + 1 is 259 in float, which bfloat16 rounds to 260; added one after the other each 1 would
    // be lost.
    constexpr std::uint16_t k256 = 0x4380;
    constexpr std::uint16_t kOne = 0x3f80;
    constexpr std::uint16_t k260 = 0x4382;
    for (const std::size_t count : {std::size_t{1}, std::size_t{777}, std::size_t{300'000}}) {
      std::vector<std::uint16_t> data(count, communicator.rank() == Rank(0) ? k256 : kOne);
      const Buffer buffer{std::as_writable_bytes(std::span(data)).data(), count * 2};
      ASSERT_TRUE(communicator.all_reduce(buffer, buffer, DataType::bfloat16, ReduceOp::sum).wait().ok());
      for (const std::uint16_t bits : data) ASSERT_EQ(bits, k260);
    }
  });
}

/// Small operations at once and large ones in flight follow each other in any order.
TEST(OneHost, MixesImmediateAndLongOperations) {
  run_on_one_host(3, test_options(), [](Communicator& communicator) {
    std::vector<float> large(200'000, 1.0F);
    std::vector<float> small(5);
    for (int round = 0; round < 50; ++round) {
      std::fill(large.begin(), large.end(), 1.0F);
      std::fill(small.begin(), small.end(), 2.0F);
      const Buffer buffer{std::as_writable_bytes(std::span(large)).data(), large.size() * sizeof(float)};
      const Operation in_flight = communicator.all_reduce(buffer, buffer, DataType::float32, ReduceOp::sum);
      communicator.all_reduce(std::span(small));
      ASSERT_TRUE(in_flight.wait().ok());
      communicator.all_reduce(std::span(small));
      ASSERT_EQ(small.front(), 18.0F);
      ASSERT_EQ(large.back(), 3.0F);
    }
  });
}

}  // namespace
}  // namespace ucxring::testing
