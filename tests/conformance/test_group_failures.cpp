// What every rank of a group sees when ranks disagree, are late, stop or die. On the simulator: exact and
// repeatable.
#include <gtest/gtest.h>

#include <string>

#include "tests/conformance/collective_cases.hpp"
#include "tests/support/ranks.hpp"

namespace ucxring::testing {
namespace {

using ::testing::Test;

std::string text(const Status& status) { return std::string(status.message()); }

bool contains(const Status& status, std::string_view part) {
  return status.message().find(part) != std::string_view::npos;
}

Communicator::Options options_with_timeout(std::chrono::milliseconds timeout) {
  auto options = test_options();
  options.timeout = timeout;
  return options;
}

/// Runs one case per rank, possibly different ones.
std::vector<Status> run_cases(SimulatedGroup& group, const std::vector<CollectiveCase>& cases) {
  std::vector<CaseBuffers> buffers;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    buffers.emplace_back(cases[static_cast<std::size_t>(rank)], rank, group.world_size());
  }
  return group.run([&](Communicator& communicator) {
    return buffers[static_cast<std::size_t>(communicator.rank().value)].start(communicator);
  });
}

struct Disagreement {
  const char* name;
  CollectiveCase one;  // called by the last rank
  CollectiveCase others;
  const char* said_by_one;
  const char* said_by_others;
};

void PrintTo(const Disagreement& disagreement, std::ostream* out) { *out << disagreement.name; }

class EveryDisagreement : public ::testing::TestWithParam<std::tuple<Disagreement, int>> {};

TEST_P(EveryDisagreement, IsOneErrorOnAllRanks) {
  const auto& [disagreement, world_size] = GetParam();
  SimulatedGroup group(world_size, options_with_timeout(std::chrono::seconds(5)));
  std::vector<CollectiveCase> cases(static_cast<std::size_t>(world_size), disagreement.others);
  cases.back() = disagreement.one;
  for (const auto& outcome : run_cases(group, cases)) {
    EXPECT_EQ(outcome.code(), ErrorCode::mismatch) << text(outcome);
    EXPECT_TRUE(contains(outcome, disagreement.said_by_one)) << text(outcome);
    EXPECT_TRUE(contains(outcome, disagreement.said_by_others)) << text(outcome);
    EXPECT_TRUE(contains(outcome, "operation #1")) << text(outcome);
  }
  EXPECT_THROW(static_cast<void>(group.rank(0).barrier()), Error);
}

const Disagreement kDisagreements[] = {
    {"kind",
     {Collective::broadcast, DataType::float32, ReduceOp::sum, 8},
     {Collective::all_reduce, DataType::float32, ReduceOp::sum, 8},
     "broadcast",
     "all_reduce"},
    {"count",
     {Collective::all_reduce, DataType::float32, ReduceOp::sum, 8},
     {Collective::all_reduce, DataType::float32, ReduceOp::sum, 4},
     "8 elements",
     "4 elements"},
    {"large_count",
     {Collective::all_reduce, DataType::float32, ReduceOp::sum, 3000000},
     {Collective::all_reduce, DataType::float32, ReduceOp::sum, 1000000},
     "3000000 elements",
     "1000000 elements"},
    {"dtype",
     {Collective::all_reduce, DataType::int32, ReduceOp::sum, 8},
     {Collective::all_reduce, DataType::float32, ReduceOp::sum, 8},
     "int32",
     "float32"},
    {"op",
     {Collective::all_reduce, DataType::float32, ReduceOp::max, 8},
     {Collective::all_reduce, DataType::float32, ReduceOp::sum, 8},
     "max",
     "sum"},
    {"zero_count",
     {Collective::all_reduce, DataType::float32, ReduceOp::sum, 0},
     {Collective::all_reduce, DataType::float32, ReduceOp::sum, 8},
     "0 elements",
     "8 elements"},
    {"gather_count",
     {Collective::all_gather, DataType::uint8, ReduceOp::sum, 100},
     {Collective::all_gather, DataType::uint8, ReduceOp::sum, 60},
     "100 elements",
     "60 elements"},
    {"all_to_all_count",
     {Collective::all_to_all, DataType::uint8, ReduceOp::sum, 100},
     {Collective::all_to_all, DataType::uint8, ReduceOp::sum, 60},
     "100 elements",
     "60 elements"},
    {"uneven_form",
     {Collective::all_to_all, DataType::uint8, ReduceOp::sum, 100, 0, false, true},
     {Collective::all_to_all, DataType::uint8, ReduceOp::sum, 100},
     "own sizes",
     "100 elements"},
    {"gather_counts",
     {Collective::all_gather, DataType::uint8, ReduceOp::sum, 100, 0, false, true},
     {Collective::all_gather, DataType::uint8, ReduceOp::sum, 60, 0, false, true},
     "other uneven sizes",
     "] elements"},
    {"scatter_counts",
     {Collective::reduce_scatter, DataType::uint8, ReduceOp::sum, 100, 0, false, true},
     {Collective::reduce_scatter, DataType::uint8, ReduceOp::sum, 60, 0, false, true},
     "other uneven sizes",
     "] elements"},
};

INSTANTIATE_TEST_SUITE_P(Kinds, EveryDisagreement,
                         ::testing::Combine(::testing::ValuesIn(kDisagreements), ::testing::Values(2, 3, 4)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

// The two roots send and receive nothing: they are done at once, and hear of the mismatch afterwards.
TEST(Mismatch, OfRootsIsFound) {
  SimulatedGroup group(2, options_with_timeout(std::chrono::seconds(5)));
  std::vector<CollectiveCase> cases;
  for (int root : {0, 1}) cases.push_back({Collective::broadcast, DataType::float32, ReduceOp::sum, 4, root});
  run_cases(group, cases);
  for (int rank = 0; rank < 2; ++rank) {
    Status later;
    try {
      later = group.rank(rank).barrier().wait();
    } catch (const Error& error) {
      later = error.status();
    }
    EXPECT_EQ(later.code(), ErrorCode::mismatch) << text(later);
    EXPECT_TRUE(contains(later, "root 0")) << text(later);
    EXPECT_TRUE(contains(later, "root 1")) << text(later);
  }
}

// Two roots that wait for each other's vectors never see a message of the other.
TEST(Mismatch, OfRootsThatWaitIsFoundAtTheDeadline) {
  for (const Collective collective : {Collective::reduce, Collective::gather}) {
    SimulatedGroup group(2, options_with_timeout(std::chrono::seconds(5)));
    std::vector<CollectiveCase> cases;
    for (int root : {0, 1}) cases.push_back({collective, DataType::float32, ReduceOp::sum, 4, root});
    for (const Status& outcome : run_cases(group, cases)) {
      EXPECT_EQ(outcome.code(), ErrorCode::mismatch) << text(outcome);
      EXPECT_TRUE(contains(outcome, "root 0")) << text(outcome);
      EXPECT_TRUE(contains(outcome, "root 1")) << text(outcome);
    }
  }
}

// Ranks print the counts that they know.
TEST(Mismatch, OfUnevenCallsSaysWhichCounts) {
  SimulatedGroup group(2, options_with_timeout(std::chrono::seconds(5)));
  std::vector<CollectiveCase> cases(2, {Collective::all_gather, DataType::float32, ReduceOp::sum, 5});
  for (CollectiveCase& each : cases) each.uneven = true;
  cases.back().count = 9;
  const auto outcomes = run_cases(group, cases);
  for (const Status& outcome : outcomes) {
    const bool first = contains(outcome, "where rank 0 called all_gather(float32, [5, 0] elements)");
    const bool second = contains(outcome, "where rank 1 called all_gather(float32, [9, 0] elements)");
    EXPECT_TRUE(first || second) << text(outcome);
    EXPECT_TRUE(contains(outcome, "called all_gather(float32, other uneven sizes)")) << text(outcome);
  }
}

// A rank whose own messages fit is done, and hears of the mismatch afterwards.
TEST(Mismatch, OfCountsThatNoRankKnowsAllIsFound) {
  for (const auto& [collective, said] :
       {std::pair{Collective::gather, "rank 2 sent a message of 102 bytes where rank 0 expects 62"},
        std::pair{Collective::scatter, "rank 0 sent a message of 62 bytes where rank 2 expects 102"},
        std::pair{Collective::all_to_all, "called all_to_all(uint8, own sizes), but rank"}}) {
    SimulatedGroup group(3, options_with_timeout(std::chrono::seconds(5)));
    std::vector<CollectiveCase> cases(3, {collective, DataType::uint8, ReduceOp::sum, 60, 0, false, true});
    cases.back().count = 100;
    const auto outcomes = run_cases(group, cases);
    for (int rank = 0; rank < 3; ++rank) {
      Status found = outcomes[static_cast<std::size_t>(rank)];
      try {
        if (found.ok()) found = group.rank(rank).barrier().wait();
      } catch (const Error& error) {
        found = error.status();
      }
      EXPECT_EQ(found.code(), ErrorCode::mismatch) << to_string(collective) << ": " << text(found);
      EXPECT_TRUE(contains(found, said)) << text(found);
      EXPECT_TRUE(contains(found, "each rank must send as much")) << text(found);
    }
  }
}

TEST(Deadline, NamesOperationSizeAndTheRankThatHasNotArrived) {
  SimulatedGroup group(4, options_with_timeout(std::chrono::seconds(3)));
  for (const auto& outcome : group.run([](Communicator& communicator) { return communicator.barrier(); })) {
    ASSERT_TRUE(outcome.ok()) << text(outcome);
  }
  const CollectiveCase shape{Collective::all_reduce, DataType::float32, ReduceOp::sum, 1000};
  std::vector<CaseBuffers> buffers;
  for (int rank = 0; rank < 4; ++rank) buffers.emplace_back(shape, rank, 4);
  std::vector<Operation> operations;
  for (const int rank : {0, 1, 3})
    operations.push_back(buffers[static_cast<std::size_t>(rank)].start(group.rank(rank)));
  for (const auto& operation : operations) {
    const Status outcome = operation.wait();
    EXPECT_EQ(outcome.code(), ErrorCode::timeout);
    for (const char* part :
         {"all_reduce", "#2", "'world'", "3.0 s", "4000 bytes", "rank 2 has not arrived", "#1"}) {
      EXPECT_TRUE(contains(outcome, part)) << part << " is not in: " << text(outcome);
    }
    EXPECT_EQ(outcome.peer(), 2);
  }
}

TEST(Deadline, NamesAStoppedRank) {
  SimulatedGroup group(3, options_with_timeout(std::chrono::seconds(3)));
  group.network().stop(Rank(1), Time{} + std::chrono::milliseconds(0));
  const CollectiveCase shape{Collective::all_reduce, DataType::float32, ReduceOp::sum, 10};
  std::vector<CaseBuffers> buffers;
  for (int rank = 0; rank < 3; ++rank) buffers.emplace_back(shape, rank, 3);
  const auto first = buffers[0].start(group.rank(0));
  const auto last = buffers[2].start(group.rank(2));
  for (const auto& outcome : {first.wait(), last.wait()}) {
    EXPECT_EQ(outcome.code(), ErrorCode::timeout);
    EXPECT_TRUE(contains(outcome, "rank 1 does not respond")) << text(outcome);
  }
}

TEST(Deadline, OfOneCallIsHonoured) {
  SimulatedGroup group(2, options_with_timeout(std::chrono::hours(1)));
  CallOptions call;
  call.timeout = std::chrono::milliseconds(1500);
  const Time before = group.network().now();
  const Status outcome = group.rank(0).barrier(call).wait();
  EXPECT_EQ(outcome.code(), ErrorCode::timeout);
  EXPECT_TRUE(contains(outcome, "1.5 s")) << text(outcome);
  EXPECT_LT(group.network().now() - before, std::chrono::milliseconds(2500));
}

TEST(Wait, WithALimitLeavesTheOperationInFlight) {
  SimulatedGroup group(2, options_with_timeout(std::chrono::hours(1)));
  const Operation operation = group.rank(0).barrier();
  const Status early = operation.wait(std::chrono::milliseconds(100));
  EXPECT_EQ(early.code(), ErrorCode::timeout);
  EXPECT_FALSE(operation.done());
  const Operation other = group.rank(1).barrier();
  EXPECT_TRUE(operation.wait().ok());
  EXPECT_TRUE(other.wait().ok());
}

TEST(PeerLoss, IsNamedByEverySurvivor) {
  SimulatedGroup group(5, options_with_timeout(std::chrono::hours(1)));
  const CollectiveCase shape{Collective::all_reduce, DataType::float32, ReduceOp::sum, 2000000};
  std::vector<CaseBuffers> buffers;
  for (int rank = 0; rank < 5; ++rank) buffers.emplace_back(shape, rank, 5);
  group.network().kill(Rank(3), group.network().now() + std::chrono::microseconds(300));
  std::vector<Operation> operations;
  for (int rank = 0; rank < 5; ++rank)
    operations.push_back(buffers[static_cast<std::size_t>(rank)].start(group.rank(rank)));
  for (const int rank : {0, 1, 2, 4}) {
    const Status outcome = operations[static_cast<std::size_t>(rank)].wait();
    EXPECT_EQ(outcome.code(), ErrorCode::peer_lost) << text(outcome);
    EXPECT_TRUE(contains(outcome, "rank 3")) << text(outcome);
    EXPECT_EQ(outcome.peer(), 3);
  }
}

TEST(Abort, ReachesEveryRank) {
  SimulatedGroup group(3, options_with_timeout(std::chrono::hours(1)));
  const Operation first = group.rank(0).barrier();
  const Operation second = group.rank(1).barrier();
  group.rank(0).abort({ErrorCode::transport, "stopped by the user"});
  EXPECT_EQ(first.wait().code(), ErrorCode::transport);
  EXPECT_TRUE(contains(second.wait(), "stopped by the user"));
  EXPECT_FALSE(group.rank(1).status().ok());
}

TEST(Arguments, AreCheckedBeforeAnythingIsSent) {
  SimulatedGroup group(2, test_options());
  std::vector<float> data(8);
  const Buffer all{reinterpret_cast<std::byte*>(data.data()), 32};
  auto& rank = group.rank(0);
  EXPECT_THROW(
      static_cast<void>(rank.all_reduce(all, Buffer{all.data, 16}, DataType::float32, ReduceOp::sum)), Error);
  EXPECT_THROW(static_cast<void>(rank.all_reduce(Buffer{all.data, 7}, Buffer{all.data, 7}, DataType::float32,
                                                 ReduceOp::sum)),
               Error);
  EXPECT_THROW(static_cast<void>(rank.all_reduce(all, all, DataType::float32, ReduceOp::bit_or)), Error);
  EXPECT_THROW(static_cast<void>(rank.broadcast(all, DataType::float32, Rank(2))), Error);
  EXPECT_THROW(static_cast<void>(rank.broadcast(all, DataType::float32, Rank(-1))), Error);
  EXPECT_THROW(static_cast<void>(rank.all_gather(all, all, DataType::float32)), Error);
  EXPECT_THROW(static_cast<void>(rank.reduce_scatter(all, all, DataType::float32, ReduceOp::sum)), Error);
  EXPECT_THROW(static_cast<void>(rank.all_reduce(Buffer{all.data, 16}, Buffer{all.data + 8, 16},
                                                 DataType::float32, ReduceOp::sum)),
               Error);
  EXPECT_EQ(rank.sequence(), 0U);
  for (const auto& outcome : group.run([](Communicator& communicator) { return communicator.barrier(); })) {
    EXPECT_TRUE(outcome.ok()) << text(outcome);
  }
}

TEST(Shutdown, FailsWhatIsInFlightAndIsIdempotent) {
  SimulatedGroup group(2, test_options());
  const Operation operation = group.rank(0).barrier();
  group.rank(0).shutdown();
  group.rank(0).shutdown();
  EXPECT_TRUE(operation.done());
  EXPECT_FALSE(operation.status().ok());
  EXPECT_THROW(static_cast<void>(group.rank(0).barrier()), Error);
}

}  // namespace
}  // namespace ucxring::testing
