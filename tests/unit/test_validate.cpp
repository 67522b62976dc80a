// Broken schedules, each caught with a message that names rank and step.
#include "collectives/validate.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/support/schedules.hpp"

namespace ucxring {
namespace {

using testing::schedules_of;
using Schedules = std::vector<Schedule>;

Schedules named(Collective collective, std::string_view name, int world_size) {
  return schedules_of(*find_algorithm(collective, name), world_size);
}

Schedules ring(int world_size) { return named(Collective::all_reduce, "ring", world_size); }

/// Expects a failure whose message holds all of `parts`.
void expect_refused(const Schedules& schedules, Collective collective,
                    std::initializer_list<std::string_view> parts, Rank root = Rank(0)) {
  const Validation validation = validate(schedules, collective, root);
  ASSERT_FALSE(validation.status.ok());
  EXPECT_EQ(validation.status.code(), ErrorCode::invalid_argument);
  for (const std::string_view part : parts) {
    EXPECT_NE(validation.status.message().find(part), std::string_view::npos)
        << "\"" << validation.status.message() << "\" lacks \"" << part << "\"";
  }
}

Schedule built(int input_chunks, int output_chunks, const std::function<void(ScheduleBuilder&)>& write) {
  ScheduleBuilder builder(input_chunks, output_chunks);
  write(builder);
  return std::move(builder).build();
}

TEST(Validate, MissingSend) {
  Schedules schedules = ring(4);
  auto& steps = schedules[2].steps;
  steps.erase(steps.begin() + 10);  // the last send, to rank 3
  expect_refused(schedules, Collective::all_reduce, {"rank 3, step 11", "rank 2 never sends it"});
}

TEST(Validate, MissingReceive) {
  Schedules schedules = ring(4);
  schedules[3].steps.pop_back();
  expect_refused(schedules, Collective::all_reduce, {"rank 2, step 10", "rank 3 never receives it"});
}

TEST(Validate, DoubleContribution) {
  Schedules schedules = named(Collective::all_reduce, "recursive_doubling", 4);
  // The second exchange takes place with the first partner again.
  const int first_partners[] = {1, 0, 3, 2};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t step = 2; step < 4; ++step) schedules[rank].steps[step].peer = first_partners[rank];
  }
  expect_refused(schedules, Collective::all_reduce,
                 {"rank ", "step 3", "holds the contribution of rank ", "twice"});
}

TEST(Validate, DoubleContributionThatOutgrowsTheGroup) {
  Schedules schedules(2, built(1, 1, [](ScheduleBuilder& builder) {
                        const ChunkRef sum = builder.scratch(input(0));
                        builder.reduce(input(0), input(0), sum);
                        for (int i = 0; i < 100; ++i) builder.reduce(sum, sum, sum);
                        builder.copy(sum, output(0));
                      }));
  expect_refused(schedules, Collective::all_reduce,
                 {"rank ", "step 0", "holds the contribution of rank ", "twice"});
}

TEST(Validate, OtherOrderBetweenRanks) {
  Schedules schedules = named(Collective::all_reduce, "recursive_doubling", 4);
  Step& last = schedules[1].steps[3];
  last.combine = last.combine == Combine::reduce ? Combine::reduce_before : Combine::reduce;
  expect_refused(
      schedules, Collective::all_reduce,
      {"rank 1, step 3", "another order than on rank 0", "((2 + 3) + (0 + 1))", "((0 + 1) + (2 + 3))"});
}

TEST(Validate, DeadlockInPlace) {
  const auto naive = [](int rank) {
    return built(1, 1, [rank](ScheduleBuilder& builder) {
      const Rank partner(1 - rank);
      builder.send(partner, input(0));
      if (rank == 0) {
        builder.receive_reduce(partner, input(0), output(0)).completes();
      } else {
        builder.receive_reduce_before(partner, input(0), output(0)).completes();
      }
    });
  };
  expect_refused(
      {naive(0), naive(1)}, Collective::all_reduce,
      {"rank 0, step 1", "dead-lock in place", "rank 0 waits at step 1", "rank 1 waits at step 1"});
}

TEST(Validate, DeadlockOfReceivesBeforeSends) {
  Schedules schedules = named(Collective::barrier, "dissemination", 3);
  for (Schedule& schedule : schedules) std::swap(schedule.steps[0], schedule.steps[1]);
  expect_refused(schedules, Collective::barrier,
                 {"rank 0, step 0", "dead-lock", "rank 2 waits", "rank 1 waits"});
}

TEST(Validate, ReadBeforeWrite) {
  Schedules schedules = named(Collective::broadcast, "chain", 3);
  std::swap(schedules[1].steps[0], schedules[1].steps[1]);
  expect_refused(schedules, Collective::broadcast,
                 {"rank 1, step 0", "reads output[0] before anything is written"});
}

TEST(Validate, BroadcastOfANonRootsInput) {
  Schedules schedules = named(Collective::broadcast, "binomial", 2);
  schedules[1] = built(
      1, 1, [](ScheduleBuilder& builder) { builder.receive(Rank(0), output(0)).copy(input(0), output(0)); });
  expect_refused(schedules, Collective::broadcast, {"rank 1, step 1", "reads input[0]"});
}

TEST(Validate, PeerOutOfRange) {
  for (const int peer : {-1, 4, 1 << 30}) {
    Schedules schedules = ring(4);
    schedules[1].steps[2].peer = peer;
    expect_refused(schedules, Collective::all_reduce,
                   {"rank 1, step 2", "there is no rank " + std::to_string(peer)});
  }
  Schedules schedules = ring(4);
  schedules[1].steps[2].peer = 1;
  expect_refused(schedules, Collective::all_reduce, {"rank 1, step 2", "no messages to itself"});
}

TEST(Validate, ChunkOutOfRange) {
  for (const ChunkRef chunk : {output(4), output(-1), input(1 << 30), ChunkRef{Space::scratch, 0}}) {
    Schedules schedules = ring(4);
    schedules[3].steps[4].source = chunk;
    expect_refused(schedules, Collective::all_reduce,
                   {"rank 3, step 4", describe(chunk) + " does not exist"});
  }
}

TEST(Validate, SizeMismatch) {
  Schedules schedules = ring(3);
  schedules[0].steps[0].source = input(1);
  expect_refused(schedules, Collective::all_reduce,
                 {"rank 1, step 1", "differs in size from what rank 0 sends in step 0"});
  schedules = ring(3);
  schedules[0].steps[0].source = signal();
  expect_refused(schedules, Collective::all_reduce, {"rank 1, step 1", "send signal to rank 1"});
  schedules = ring(3);
  schedules[2].steps[1].operand = input(0);
  expect_refused(schedules, Collective::all_reduce,
                 {"rank 2, step 1", "input[0] and output[1] differ in size"});
}

TEST(Validate, CompletesMissing) {
  for (const auto name : {"ring", "recursive_doubling", "direct", "direct_two_shot"}) {
    Schedules schedules = named(Collective::all_reduce, name, 4);
    std::size_t marked = 0;
    while (!schedules[2].steps[marked].completes) ++marked;
    schedules[2].steps[marked].completes = false;
    expect_refused(schedules, Collective::all_reduce,
                   {"rank 2, step " + std::to_string(marked), "not marked as completing"});
  }
}

TEST(Validate, CompletesTooEarlyOrOnACopy) {
  Schedules schedules = ring(4);
  schedules[1].steps[1].completes = true;
  expect_refused(schedules, Collective::all_reduce, {"rank 1, step 1", "misses the contribution of rank"});
  schedules = ring(4);
  schedules[1].steps.back().completes = true;
  expect_refused(schedules, Collective::all_reduce, {"rank 1, step 11", "computes nothing"});
}

TEST(Validate, WritesTheInput) {
  Schedules schedules = ring(4);
  schedules[1].steps[1].target.space = Space::input;
  expect_refused(schedules, Collective::all_reduce, {"rank 1, step 1", "the input must not be written"});
}

TEST(Validate, OutputNeverWritten) {
  const Schedules schedules{built(1, 2, [](ScheduleBuilder& builder) { builder.copy(input(0), output(0)); }),
                            built(1, 2, [](ScheduleBuilder& builder) { builder.copy(input(0), output(1)); })};
  expect_refused(schedules, Collective::all_gather, {"rank 0", "output[1] was never written"});
}

TEST(Validate, RootWithoutInput) {
  const Schedules schedules = named(Collective::broadcast, "chain", 2);
  expect_refused(schedules, Collective::broadcast, {"rank 1", "0 input and 1 output chunks"}, Rank(1));
}

TEST(Validate, BarrierThatDoesNotWait) {
  Schedules schedules = named(Collective::barrier, "dissemination", 4);
  for (Schedule& schedule : schedules) schedule.steps.resize(2);
  expect_refused(schedules, Collective::barrier, {"rank 0", "without having heard of rank 1"});
}

TEST(Validate, WrongChunkCounts) {
  Schedules schedules = ring(4);
  schedules[2].output_chunks = 3;
  expect_refused(schedules, Collective::all_reduce, {"rank 2", "4 input and 3 output chunks"});
  schedules = ring(4);
  for (Schedule& schedule : schedules) schedule.input_chunks = schedule.output_chunks = 2'000'000'000;
  expect_refused(schedules, Collective::all_reduce, {"chunks on all ranks together"});
  schedules = ring(4);
  for (Schedule& schedule : schedules) schedule.input_chunks = schedule.output_chunks = -1;
  expect_refused(schedules, Collective::all_reduce, {"-1 chunks"});
}

TEST(Validate, ScratchOfAnUnknownSize) {
  for (const ChunkRef like : {signal(), input(9), ChunkRef{Space::scratch, 0}}) {
    Schedules schedules = named(Collective::all_reduce, "direct", 3);
    schedules[1].scratch[0].like = like;
    expect_refused(schedules, Collective::all_reduce, {"rank 1", "scratch[0]", "does not exist"});
  }
}

TEST(Validate, Bundles) {
  const auto gather = [] { return named(Collective::gather, "binomial", 4); };
  EXPECT_TRUE(validate(gather(), Collective::gather, Rank(0), Parts::even).status.ok());
  expect_refused(gather(), Collective::gather, {"rank 0"});  // for parts of different sizes
  const auto expect_even_refused = [](const Schedules& schedules, std::string_view why) {
    const Status status = validate(schedules, Collective::gather, Rank(0), Parts::even).status;
    EXPECT_NE(status.message().find(why), std::string_view::npos) << status.message();
  };
  Schedules schedules = gather();
  for (Schedule& schedule : schedules) schedule.widest = 1;
  expect_even_refused(schedules, "a message of 2 chunks");
  schedules = gather();
  schedules[1].widest = 3;
  expect_even_refused(schedules, "of up to 3 chunks, rank 0 of up to 2");
  schedules = gather();
  schedules[2].scratch[1].place = 0;
  expect_even_refused(schedules, "does not exist");
  schedules = gather();
  schedules[2].scratch[1].place = 2;
  expect_even_refused(schedules, "does not lead up to it");
}

TEST(Validate, UnknownValues) {
  Schedules schedules = ring(3);
  schedules[1].steps[1].action = static_cast<Action>(77);
  expect_refused(schedules, Collective::all_reduce, {"rank 1, step 1", "unknown action"});
  schedules = ring(3);
  schedules[1].steps[1].combine = static_cast<Combine>(77);
  expect_refused(schedules, Collective::all_reduce, {"rank 1, step 1", "unknown combination"});
  schedules = ring(3);
  schedules[1].steps[0].source.space = static_cast<Space>(77);
  expect_refused(schedules, Collective::all_reduce, {"rank 1, step 0", "does not exist"});
  expect_refused(ring(3), static_cast<Collective>(77), {"no such collective"});
}

TEST(Validate, OddGroups) {
  expect_refused({}, Collective::barrier, {"there are no schedules"});
  expect_refused(ring(3), Collective::all_reduce, {"rank 3, is not in the group"}, Rank(3));
  expect_refused(ring(3), Collective::broadcast, {"rank 0"});
}

TEST(Validate, AGroupOfOne) {
  const Schedules copies(1, built(1, 1, [](ScheduleBuilder& builder) { builder.copy(input(0), output(0)); }));
  for (const auto collective :
       {Collective::all_reduce, Collective::broadcast, Collective::reduce, Collective::all_gather,
        Collective::reduce_scatter, Collective::gather, Collective::scatter, Collective::all_to_all}) {
    EXPECT_TRUE(validate(copies, collective).status.ok()) << to_string(collective);
  }
  EXPECT_TRUE(validate(Schedules(1), Collective::barrier).status.ok());
  expect_refused(Schedules(1), Collective::all_reduce, {"rank 0 cuts its input into 0 chunks"});
}

}  // namespace
}  // namespace ucxring
