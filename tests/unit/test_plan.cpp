// Plans: who cuts what into which slices. No byte is moved, so sizes may be as large as they like.
#include "collectives/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "collectives/lane_memory.hpp"

namespace ucxring {
namespace {

constexpr std::size_t kSlice = 256;

/// A group of ranks that share nothing.
PlanEnvironment environment_of(int rank, int world_size) {
  PlanEnvironment environment;
  environment.rank = Rank(rank);
  environment.world_size = world_size;
  environment.hosts.resize(static_cast<std::size_t>(world_size));
  std::iota(environment.hosts.begin(), environment.hosts.end(), 0);
  environment.config.slice_bytes = kSlice;
  return environment;
}

/// Those that move bytes between ranks on hosts of their own.
std::vector<Algorithm> algorithms_of(bool uneven) {
  std::vector<Algorithm> found;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == Collective::barrier || !algorithm.supports({Rank(0), 8})) continue;
    if (!uneven || algorithm.uneven) found.push_back(algorithm);
  }
  return found;
}

std::string title(const Algorithm& algorithm) {
  return std::string(to_string(algorithm.collective)) + "_" + std::string(algorithm.name);
}

class EveryPlan : public ::testing::TestWithParam<Algorithm> {};

TEST_P(EveryPlan, CoversMoreThan32BitsCount) {
  constexpr std::size_t kCount = (std::size_t{5} << 32U) + 3;
  for (int rank = 0; rank < 8; ++rank) {
    const Fingerprint fingerprint{GetParam().collective, DataType::float64, ReduceOp::sum, 3, kCount};
    const Plan plan = make_plan(fingerprint, environment_of(rank, 8), &GetParam());
    const bool per_rank = has_chunk_per_rank(fingerprint.collective);
    const auto parts = [&](int chunks) { return per_rank ? static_cast<std::size_t>(chunks) : chunks > 0; };
    EXPECT_EQ(plan.input_bytes, parts(plan.schedule.input_chunks) * kCount * 8);
    EXPECT_EQ(plan.output_bytes, parts(plan.schedule.output_chunks) * kCount * 8);
    for (const ChunkMap* map : {&plan.input, &plan.output}) {
      for (const Extent& extent : *map) EXPECT_LE(extent.bytes, plan.lanes * plan.slice_bytes);
    }
    EXPECT_GT(plan.lanes, std::uint64_t{1} << 26U);
  }
}

/// Bytes of each message between two ranks: by lane, sender, receiver and number; of those that are sent.
using Messages = std::map<std::tuple<std::uint64_t, int, int, std::uint32_t>, std::size_t>;

Messages messages_of(const Plan& plan, int rank, Action action, std::uint64_t lanes) {
  Messages messages;
  for (std::uint64_t lane = 0; lane < std::min(lanes, plan.lanes); ++lane) {
    const LaneMemory memory{&plan, {}, nullptr, lane};
    for (const Move& move : plan.moves.list) {
      const Step& step = plan.schedule.steps[move.step];
      if (step.action != action) continue;
      const ChunkRef chunk = action == Action::send ? step.source : step.target;
      if (!memory.takes_part(chunk)) continue;
      const bool sends = action == Action::send;
      messages[{lane, sends ? rank : step.peer, sends ? step.peer : rank, move.ordinal}] =
          memory.slice(chunk).bytes;
    }
  }
  return messages;
}

/// Some counts are 0, others need several lanes.
std::size_t count_of(int from, int to) { return static_cast<std::size_t>((from * 5 + to * 3) % 4) * 300; }

/// What each rank knows, and no more.
std::pair<std::vector<std::size_t>, std::vector<std::size_t>> counts_of(Collective collective, int rank,
                                                                        int world_size, int root) {
  std::vector<std::size_t> row;
  std::vector<std::size_t> column;
  for (int other = 0; other < world_size; ++other) {
    const bool exchanges = collective == Collective::all_to_all;
    row.push_back(count_of(exchanges ? rank : 0, other));
    column.push_back(count_of(other, exchanges ? rank : 0));
  }
  const std::vector<std::size_t> own_of_row{row[static_cast<std::size_t>(rank)]};
  const std::vector<std::size_t> own_of_column{column[static_cast<std::size_t>(rank)]};
  switch (collective) {
    case Collective::all_gather:
      return {own_of_column, column};
    case Collective::gather:
      return {own_of_column, rank == root ? column : std::vector<std::size_t>()};
    case Collective::reduce_scatter:
      return {row, own_of_row};
    case Collective::scatter:
      return {rank == root ? row : std::vector<std::size_t>(), own_of_row};
    default:
      return {row, column};
  }
}

class EveryUnevenPlan : public ::testing::TestWithParam<Algorithm> {};

TEST_P(EveryUnevenPlan, CutsMessagesAlikeOnBothSides) {
  constexpr int kRanks = 5;
  constexpr int kRoot = 2;
  Messages sent;
  Messages received;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Collective collective = GetParam().collective;
    const Fingerprint fingerprint{collective, DataType::int32, ReduceOp::sum, kRoot, 0, true};
    const auto [input, output] = counts_of(collective, rank, kRanks, kRoot);
    const Plan plan = make_plan(fingerprint, environment_of(rank, kRanks), &GetParam(), {input, output});
    EXPECT_EQ(plan.slice_bytes, kSlice);
    EXPECT_EQ(plan.input_bytes, std::accumulate(input.begin(), input.end(), std::size_t{0}) * 4);
    EXPECT_EQ(plan.output_bytes, std::accumulate(output.begin(), output.end(), std::size_t{0}) * 4);
    sent.merge(messages_of(plan, rank, Action::send, plan.lanes));
    received.merge(messages_of(plan, rank, Action::receive, plan.lanes));
  }
  EXPECT_EQ(sent, received);
  EXPECT_FALSE(sent.empty());
}

TEST(ReductionWithoutMeaning, NamesTheCollective) {
  const Fingerprint fingerprint{Collective::reduce_scatter, DataType::int64, ReduceOp::average, 0, 4};
  try {
    static_cast<void>(make_plan(fingerprint, environment_of(0, 1), nullptr));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_TRUE(error.status().message().starts_with("reduce_scatter: reduction average")) << error.what();
  }
}

TEST(Bundles, LieTogetherInEveryLane) {
  for (const auto& [collective, name] :
       {std::pair{Collective::gather, "binomial"}, std::pair{Collective::scatter, "binomial"},
        std::pair{Collective::all_to_all, "bruck"}}) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{401}}) {
      const Fingerprint fingerprint{collective, DataType::int32, ReduceOp::sum, 0, count};
      const Plan plan = make_plan(fingerprint, environment_of(4, 8), find_algorithm(collective, name));
      std::vector<std::byte> scratch(plan.scratch_bytes);
      for (std::uint64_t lane = 0; lane < plan.lanes; ++lane) {
        const LaneMemory memory{&plan, {}, scratch.data(), lane};
        for (const Step& step : plan.schedule.steps) {
          const ChunkRef chunk = step.action == Action::send ? step.source : step.target;
          if (chunk.space != Space::scratch) continue;
          const Buffer all = memory.slice(chunk);
          EXPECT_LE(all.data + all.bytes, scratch.data() + scratch.size());
          for (int i = 0; i < chunk.chunks; ++i) {
            const Buffer one = memory.slice(chunk.part(i));
            EXPECT_EQ(one.data, all.data + static_cast<std::size_t>(i) * one.bytes);
            EXPECT_EQ(one.bytes * static_cast<std::size_t>(chunk.chunks), all.bytes);
          }
        }
      }
    }
  }
}

/// The stamp has no room for roots from 4096 on: the cache must not take one for another.
TEST(PlanCache, TellsLargeRootsApart) {
  PlanCache plans(environment_of(0, 8192));
  Fingerprint fingerprint{Collective::broadcast, DataType::float32, ReduceOp::sum, 5, 16};
  EXPECT_EQ(plans.get(fingerprint)->fingerprint.root, 5);
  fingerprint.root = 4096 + 5;
  EXPECT_EQ(plans.get(fingerprint)->fingerprint.root, 4096 + 5);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPlan, ::testing::ValuesIn(algorithms_of(false)),
                         [](const auto& test) { return title(test.param); });
INSTANTIATE_TEST_SUITE_P(Registry, EveryUnevenPlan, ::testing::ValuesIn(algorithms_of(true)),
                         [](const auto& test) { return title(test.param); });

}  // namespace
}  // namespace ucxring
