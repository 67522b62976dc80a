#include "transport/matcher.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace {
std::atomic<long> allocations{0};
}  // namespace

// Not inlined: the compiler would see a free() that meets a new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ucxring {
namespace {

using Payload = std::unique_ptr<int>;  // move-only, as transports' payloads are

Matcher<Payload>::Message message(int peer, Tag tag, int payload) {
  return {Rank(peer), tag, 7, 4, std::make_unique<int>(payload)};
}

TEST(Matcher, PostedReceiveMeetsItsMessageOnly) {
  Matcher<Payload> matcher;
  std::array<Completion, 2> done;
  std::array<std::byte, 4> target{};
  const Tag first = Tag::make(1, 2, 3);
  const Tag second = Tag::make(1, 2, 4);
  EXPECT_FALSE(matcher.post(Rank(5), PostedReceive::into({target.data(), 4}, first, 7, done[0])));
  EXPECT_FALSE(matcher.post(Rank(5), PostedReceive::into({target.data(), 4}, second, 7, done[1])));
  EXPECT_EQ(done[0].state, Completion::State::pending);
  EXPECT_FALSE(matcher.arrive(Rank(4), first));
  const auto receive = matcher.arrive(Rank(5), second);
  ASSERT_TRUE(receive);
  EXPECT_EQ(receive->done, &done[1]);
  EXPECT_FALSE(matcher.arrive(Rank(5), second));
  EXPECT_EQ(matcher.posted(), 1u);
}

TEST(Matcher, UnexpectedMessagesLeaveInOrder) {
  Matcher<Payload> matcher;
  const Tag tag = Tag::make(9, 0, 0);
  matcher.keep(message(0, tag, 10));
  matcher.keep(message(0, tag, 11));
  Completion done;
  const auto receive = PostedReceive::into({}, tag, 7, done);
  EXPECT_EQ(*matcher.post(Rank(0), receive)->payload, 10);
  EXPECT_EQ(*matcher.post(Rank(0), receive)->payload, 11);
  EXPECT_FALSE(matcher.post(Rank(0), receive));
  EXPECT_EQ(matcher.unexpected(), 0u);
}

TEST(Matcher, MismatchCompletesWithBothValues) {
  Completion done;
  std::array<std::byte, 4> target{};
  const auto receive = PostedReceive::into({target.data(), 4}, Tag::make(1, 0, 0), 7, done);
  EXPECT_TRUE(receive.check_match(Rank(1), 7, 4).ok());
  done.start();
  EXPECT_FALSE(receive.accept(Rank(1), 8, 4));
  EXPECT_EQ(done.state, Completion::State::failed);
  EXPECT_EQ(done.status.code(), ErrorCode::mismatch);
  EXPECT_EQ(done.status.peer(), 1);
  EXPECT_EQ(done.received_stamp, 8u);
  EXPECT_EQ(done.received_bytes, 4u);
  EXPECT_EQ(receive.check_match(Rank(1), 7, 5).code(), ErrorCode::mismatch);
}

TEST(Matcher, DeliversByCopyAndBySink) {
  Completion done;
  const std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  std::array<std::byte, 3> target{};
  const auto copy = PostedReceive::into({target.data(), 3}, Tag{}, 0, done);
  copy.deliver(0, std::span(bytes).first(1));
  copy.deliver(1, std::span(bytes).subspan(1));
  EXPECT_EQ(target, bytes);

  std::vector<std::size_t> calls;
  const Sink sink{[](void* context, std::size_t offset, std::span<const std::byte> range) {
                    static_cast<std::vector<std::size_t>*>(context)->push_back(offset + 100 * range.size());
                  },
                  &calls};
  const auto apply = PostedReceive::applying(sink, 3, Tag{}, 0, done);
  apply.deliver(0, {});
  apply.deliver(2, std::span(bytes).first(1));
  EXPECT_EQ(calls, std::vector<std::size_t>{102});
}

TEST(Matcher, FailPeerLeavesTheOthers) {
  Matcher<Payload> matcher;
  std::array<Completion, 3> done;
  for (int peer = 0; peer < 3; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    EXPECT_FALSE(matcher.post(Rank(peer), PostedReceive::into({}, Tag::make(1, 0, at), 0, done[at])));
    matcher.keep(message(peer, Tag::make(2, 0, 0), peer));
  }
  const Status lost(ErrorCode::peer_lost, "gone", 1);
  std::vector<int> dropped;
  const auto drop = [&](Matcher<Payload>::Message&& what) { dropped.push_back(*what.payload); };
  EXPECT_TRUE(matcher.fail_peer(Rank(1), lost, drop));
  EXPECT_FALSE(matcher.fail_peer(Rank(1), lost, drop));
  EXPECT_EQ(dropped, std::vector<int>{1});
  EXPECT_EQ(done[0].state, Completion::State::pending);
  EXPECT_EQ(done[1].status.code(), ErrorCode::peer_lost);
  EXPECT_EQ(matcher.posted(), 2u);
  EXPECT_TRUE(matcher.fail_all(lost));
  EXPECT_EQ(done[2].state, Completion::State::failed);
  EXPECT_EQ(matcher.posted() + matcher.unexpected(), 0u);
}

TEST(Matcher, SteadyUseDoesNotAllocate) {
  Matcher<int> matcher;
  std::vector<Completion> done(1000);
  const auto round = [&](std::uint64_t sequence) {
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (matcher.post(Rank(0), PostedReceive::into({}, Tag::make(sequence, i, 0), 0, done[i])))
        ADD_FAILURE();
      matcher.keep({Rank(1), Tag::make(sequence, i, 0)});
    }
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (!matcher.arrive(Rank(0), Tag::make(sequence, i, 0))) ADD_FAILURE();
      if (!matcher.post(Rank(1), PostedReceive::into({}, Tag::make(sequence, i, 0), 0, done[i])))
        ADD_FAILURE();
    }
  };
  round(1);
  const long before = allocations;
  for (std::uint64_t sequence = 2; sequence < 10; ++sequence) round(sequence);
  EXPECT_EQ(allocations, before);
}

TEST(Matcher, PeerThatLeftKeepsWhatItSent) {
  Matcher<Payload> matcher;
  Completion done;
  const Tag tag = Tag::make(1, 0, 0);
  matcher.keep(message(1, tag, 5));
  EXPECT_TRUE(matcher.holds(Rank(1), tag));
  EXPECT_FALSE(matcher.post(Rank(1), PostedReceive::into({}, Tag::make(2, 0, 0), 7, done)));
  EXPECT_TRUE(matcher.fail_posted(Rank(1), Status(ErrorCode::peer_lost, "left", 1)));
  EXPECT_EQ(done.state, Completion::State::failed);
  EXPECT_TRUE(matcher.holds(Rank(1), tag));
}

TEST(MatchTable, TenThousandEntriesInAnyOrder) {
  MatchTable<std::uint64_t> table;
  constexpr std::uint64_t kEntries = 10'000;
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < kEntries; ++i) {
      table.insert(Rank(static_cast<int>(i % 97)), Tag::make(i / 512, i % 512, 0), i);
    }
    EXPECT_TRUE(table.contains(Rank(3), Tag::make(0, 3, 0)));
    for (std::uint64_t k = 0; k < kEntries; ++k) {
      const std::uint64_t i = (k * 7919) % kEntries;  // 7919 is prime to 10 000: a permutation
      EXPECT_EQ(table.take(Rank(static_cast<int>(i % 97)), Tag::make(i / 512, i % 512, 0)), i);
    }
    EXPECT_EQ(table.size(), 0u);
    EXPECT_FALSE(table.contains(Rank(3), Tag::make(0, 3, 0)));
  }
}

}  // namespace
}  // namespace ucxring
