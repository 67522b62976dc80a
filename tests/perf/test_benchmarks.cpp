#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "bench/perf/buffers.hpp"
#include "bench/perf/measure.hpp"
#include "transport/loopback/loopback.hpp"

namespace ucxring::perf {
namespace {

using namespace std::chrono_literals;

/// A rank alone, over memory.
struct Alone {
  std::shared_ptr<Store> store = make_memory_store();
  Communicator communicator{loopback::create(loopback::make_hub(1), Rank(0)), Engine::process({}), {}};
  Exchange exchange{store, Rank(0), 1, 10s};

  [[nodiscard]] Row measure(const Benchmark& benchmark, const Method& method) {
    Problem problem;
    problem.bytes = 4096;
    const Buffers buffers = make_buffers(problem.bytes);
    const Call call = make_call(communicator, benchmark, problem, buffers, false);
    return perf::measure(benchmark, call, false, method, exchange);
  }
};

TEST(Benchmarks, EveryCollectiveHasARow) {
  for (int i = 0; i < kCollectives; ++i) {
    EXPECT_NE(find_benchmark(to_string(static_cast<Collective>(i))), nullptr)
        << to_string(static_cast<Collective>(i));
  }
  EXPECT_EQ(find_benchmark("all_reduces"), nullptr);
}

TEST(Benchmarks, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(find_benchmark("all_reduce")->bus_factor(4), 1.5);
  EXPECT_DOUBLE_EQ(find_benchmark("all_gather")->bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(find_benchmark("reduce_scatter")->bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(find_benchmark("broadcast")->bus_factor(4), 1.0);
  EXPECT_DOUBLE_EQ(find_benchmark("reduce")->bus_factor(4), 1.0);
  EXPECT_DOUBLE_EQ(find_benchmark("gather")->bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(find_benchmark("scatter")->bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(find_benchmark("all_to_all")->bus_factor(4), 0.75);
}

TEST(Benchmarks, SizesAreWholeElementsForEveryRank) {
  EXPECT_EQ(find_benchmark("all_reduce")->round(15, DataType::float64, 3), 8U);
  EXPECT_EQ(find_benchmark("all_reduce")->round(1, DataType::float64, 3), 8U);
  EXPECT_EQ(find_benchmark("all_gather")->round(100, DataType::float64, 3), 96U);
  EXPECT_EQ(find_benchmark("reduce_scatter")->round(1, DataType::int8, 3), 3U);
  EXPECT_EQ(find_benchmark("all_to_all")->round(100, DataType::int16, 3), 96U);
  EXPECT_EQ(find_benchmark("barrier")->round(100, DataType::int8, 3), 0U);
}

TEST(Benchmarks, InPlaceTheSmallerBufferIsTheRanksPart) {
  Alone alone;
  Problem problem;
  problem.rank = 1;
  problem.world_size = 2;
  problem.bytes = 64;
  const Buffers buffers = make_buffers(64);
  const auto call = [&](const char* name) {
    return make_call(alone.communicator, *find_benchmark(name), problem, buffers, true);
  };
  EXPECT_EQ(call("all_reduce").input.data, call("all_reduce").output.data);
  EXPECT_EQ(call("all_gather").input.data, call("all_gather").output.data + 32);
  EXPECT_EQ(call("reduce_scatter").output.data, call("reduce_scatter").input.data + 32);
  EXPECT_EQ(call("reduce_scatter").output.bytes, 32U);
}

TEST(Benchmarks, MedianOfEvenAndOddNumbers) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(median({7}), 7);
}

TEST(Benchmarks, WrongElementsAreCountedBeforeAndAfter) {
  Benchmark broken = *find_benchmark("memcpy");
  broken.repeat = [](const Call& call, std::uint64_t times) {
    find_benchmark("memcpy")->repeat(call, times);
    call.output.data[4 * 17] ^= std::byte{1};
  };
  Alone alone;
  EXPECT_EQ(alone.measure(broken, {}).wrong, 2U);
  EXPECT_EQ(alone.measure(*find_benchmark("memcpy"), {}).wrong, 0U);
  Method unchecked;
  unchecked.check = false;
  EXPECT_FALSE(alone.measure(broken, unchecked).wrong.has_value());
}

TEST(Benchmarks, ACallThatDoesNothingIsWrong) {
  Benchmark idle = *find_benchmark("all_reduce");
  idle.repeat = [](const Call&, std::uint64_t) {};
  Alone alone;
  EXPECT_EQ(alone.measure(idle, {}).wrong, 2U * 1024);
}

TEST(Benchmarks, IterationsFollowTheTimeWanted) {
  Benchmark slow = *find_benchmark("barrier");
  slow.repeat = [](const Call&, std::uint64_t times) { std::this_thread::sleep_for(times * 1ms); };
  Method method;
  method.trials = 3;
  method.warmup = 0;
  method.time_per_size = 60ms;
  Alone alone;
  const Row row = alone.measure(slow, method);
  EXPECT_GE(row.iterations, 2U);
  EXPECT_LE(row.iterations, 20U);
  EXPECT_EQ(row.samples_us.size(), 3U);
  EXPECT_GE(row.best_us, 1000);
  EXPECT_GE(row.median_us, row.best_us);
}

}  // namespace
}  // namespace ucxring::perf
