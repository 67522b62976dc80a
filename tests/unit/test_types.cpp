#include "transport/types.hpp"

#include <gtest/gtest.h>

#include <tuple>

namespace ucxring {
namespace {

TEST(Tag, FieldsComeBackUnmixed) {
  constexpr std::uint64_t kSequence = (std::uint64_t{1} << Tag::kSequenceBits) - 1;
  constexpr std::uint64_t kLane = (std::uint64_t{1} << Tag::kLaneBits) - 1;
  constexpr std::uint64_t kStep = (std::uint64_t{1} << Tag::kStepBits) - 1;
  for (const auto& [sequence, lane, step] :
       {std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>{kSequence, 0, 0},
        {0, kLane, 0},
        {0, 0, kStep},
        {1, 2, 3},
        {kSequence, kLane, kStep}}) {
    const Tag tag = Tag::make(sequence, lane, step);
    EXPECT_EQ(tag.sequence(), sequence);
    EXPECT_EQ(tag.lane(), lane);
    EXPECT_EQ(tag.step(), step);
    EXPECT_EQ(Tag::from_bits(tag.bits()), tag);
  }
  EXPECT_EQ(Tag::kSequenceBits + Tag::kLaneBits + Tag::kStepBits, 64);
}

TEST(Tag, SequenceAndLaneWrapAround) {
  EXPECT_EQ(Tag::make(std::uint64_t{1} << Tag::kSequenceBits, std::uint64_t{1} << Tag::kLaneBits, 5),
            Tag::make(0, 0, 5));
  EXPECT_NE(Tag::make(1, 0, 0), Tag::make(0, 1, 0));
}

TEST(Completion, MovesFromPendingToItsEnd) {
  Completion done;
  EXPECT_TRUE(done.finished());
  done.start();
  EXPECT_FALSE(done.finished());
  done.succeed();
  EXPECT_EQ(done.state, Completion::State::done);
  done.start();
  done.fail(Status(ErrorCode::timeout, "late"));
  EXPECT_TRUE(done.finished());
  EXPECT_EQ(done.state, Completion::State::failed);
  EXPECT_EQ(done.status.code(), ErrorCode::timeout);
}

TEST(ConstBuffer, ViewsABuffer) {
  std::byte bytes[3] = {};
  const ConstBuffer view = Buffer{bytes, 3, MemoryKind::cuda};
  EXPECT_EQ(view.data, bytes);
  EXPECT_EQ(view.bytes, 3u);
  EXPECT_EQ(view.kind, MemoryKind::cuda);
}

}  // namespace
}  // namespace ucxring
