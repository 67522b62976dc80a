#include "collectives/schedule.hpp"

#include <gtest/gtest.h>

namespace ucxring {
namespace {

const ChunkRef kIn = input(2);
const ChunkRef kOut = output(3);

Step only_step(ScheduleBuilder& builder) {
  const Schedule schedule = std::move(builder).build();
  EXPECT_EQ(schedule.steps.size(), 1u);
  return schedule.steps.front();
}

TEST(ScheduleBuilder, KeepsChunkCountsAndScratch) {
  ScheduleBuilder builder(4, 5);
  EXPECT_EQ(builder.scratch(input(1)), (ChunkRef{Space::scratch, 0}));
  EXPECT_EQ(builder.scratch(output(2)), (ChunkRef{Space::scratch, 1}));
  const Schedule schedule = std::move(builder).build();
  EXPECT_EQ(schedule.input_chunks, 4);
  EXPECT_EQ(schedule.output_chunks, 5);
  EXPECT_EQ(schedule.scratch, (std::vector<ScratchChunk>{{input(1)}, {output(2)}}));
  EXPECT_TRUE(schedule.steps.empty());
}

TEST(ScheduleBuilder, Send) {
  ScheduleBuilder builder(4, 4);
  const Step step = only_step(builder.send(Rank(7), kIn));
  EXPECT_EQ(step.action, Action::send);
  EXPECT_EQ(step.peer, 7);
  EXPECT_EQ(step.source, kIn);
  EXPECT_EQ(step.target.space, Space::none);
  EXPECT_FALSE(step.completes);
}

TEST(ScheduleBuilder, Receive) {
  ScheduleBuilder builder(4, 4);
  const Step step = only_step(builder.receive(Rank(7), kOut));
  EXPECT_EQ(step.action, Action::receive);
  EXPECT_EQ(step.combine, Combine::copy);
  EXPECT_EQ(step.peer, 7);
  EXPECT_EQ(step.target, kOut);
}

TEST(ScheduleBuilder, ReceiveReduceTellsOperandsApart) {
  ScheduleBuilder after(4, 4);
  EXPECT_EQ(only_step(after.receive_reduce(Rank(1), kIn, kOut)).combine, Combine::reduce);
  ScheduleBuilder before(4, 4);
  const Step step = only_step(before.receive_reduce_before(Rank(1), kIn, kOut));
  EXPECT_EQ(step.combine, Combine::reduce_before);
  EXPECT_EQ(step.operand, kIn);
  EXPECT_EQ(step.target, kOut);
}

TEST(ScheduleBuilder, LocalSteps) {
  ScheduleBuilder copy(4, 4);
  const Step copied = only_step(copy.copy(kIn, kOut));
  EXPECT_EQ(copied.action, Action::local);
  EXPECT_EQ(copied.combine, Combine::copy);
  EXPECT_EQ(copied.source, kIn);
  ScheduleBuilder reduce(4, 4);
  const Step reduced = only_step(reduce.reduce(kIn, output(1), kOut).completes());
  EXPECT_EQ(reduced.combine, Combine::reduce);
  EXPECT_EQ(reduced.operand, kIn);
  EXPECT_EQ(reduced.source, output(1));
  EXPECT_TRUE(reduced.completes);
}

TEST(ScheduleBuilder, CompletesNeedsAStep) {
  ScheduleBuilder builder(1, 1);
  EXPECT_THROW(builder.completes(), Error);
}

TEST(Describe, ReadsLikeTheTextbook) {
  ScheduleBuilder builder(4, 4);
  const ChunkRef scratch = builder.scratch(kIn);
  builder.send(Rank(1), kIn).send(Rank(1), signal());
  builder.receive(Rank(2), kOut)
      .receive_reduce(Rank(2), kIn, kOut)
      .receive_reduce_before(Rank(2), kIn, scratch);
  builder.copy(kIn, kOut).reduce(kIn, scratch, kOut);
  std::vector<std::string> texts;
  for (const Step& step : std::move(builder).build().steps) texts.push_back(describe(step));
  EXPECT_EQ(texts, (std::vector<std::string>{"send input[2] to rank 1", "send signal to rank 1",
                                             "receive from rank 2: output[3] = incoming",
                                             "receive from rank 2: output[3] = input[2] + incoming",
                                             "receive from rank 2: scratch[0] = incoming + input[2]",
                                             "output[3] = input[2]", "output[3] = input[2] + scratch[0]"}));
}

TEST(Describe, SurvivesUnknownValues) {
  EXPECT_EQ(describe(Step{.action = static_cast<Action>(9)}), "unknown action 9");
  EXPECT_EQ(describe(ChunkRef{static_cast<Space>(8), 0}), "unknown space 8");
  Step step{.action = Action::receive, .combine = static_cast<Combine>(7)};
  EXPECT_NE(describe(step).find("unknown combination 7"), std::string::npos);
}

}  // namespace
}  // namespace ucxring
