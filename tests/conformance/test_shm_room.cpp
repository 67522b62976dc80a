// A sender that finds no room for long has its readers set its messages aside: nothing may change for who
// waits for them, and for who has found them but still waits for others. And messages of senders that give
// up, or do not agree.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>

#include "collectives/communicator.hpp"
#include "tests/conformance/transport_conformance.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/shm_ranks.hpp"
#include "transport/registered_buffer.hpp"

namespace ucxring::testing {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 10U;

/// Calls `poll` until `done`; false after 20 s.
bool poll_until(const std::function<void()>& poll, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    poll();
  }
  return true;
}

TEST(Room, MessagesSetAsideAreFound) {
  const auto ranks = make_shm_ranks(2);
  SharedMemory& sender = *ranks[0]->shared_memory();
  SharedMemory& reader = *ranks[1]->shared_memory();
  const auto poll = [&] {
    for (const auto& rank : ranks) rank->context()->progress();
  };
  const auto publish = [&](std::span<const std::byte> data, std::uint64_t sequence) {
    const Recipient recipient{Rank(1), 0};
    return sender.publish({data.data(), data.size()}, {&recipient, 1}, Tag::make(sequence, 0, 0), sequence);
  };
  ASSERT_TRUE(publish({}, 0));  // as a barrier sends
  std::uint64_t sent = 1;
  while (publish(pattern(kBytes, static_cast<unsigned>(sent)), sent)) ++sent;
  const auto data = pattern(kBytes, static_cast<unsigned>(sent));
  ASSERT_TRUE(poll_until(poll, [&] { return publish(data, sent); })) << "the reader has made no room";
  poll();
  for (std::uint64_t sequence = 0; sequence <= sent; ++sequence) {
    const Tag tag = Tag::make(sequence, 0, 0);
    const SharedMemory::Message message = reader.peek(Rank(0), tag);
    ASSERT_NE(message.data, nullptr) << "message " << sequence << " of " << sent;
    EXPECT_EQ(message.stamp, sequence);
    const auto expected =
        sequence == 0 ? std::vector<std::byte>() : pattern(kBytes, static_cast<unsigned>(sequence));
    ASSERT_EQ(std::vector<std::byte>(message.data, message.data + message.bytes), expected);
    reader.release(Rank(0), tag);
    EXPECT_EQ(reader.peek(Rank(0), tag).data, nullptr);
  }
}

TEST(Room, OfRegisteredMessagesHalfAQueueIsUnderWayAtMost) {
  const RegisteredBuffer memory = RegisteredBuffer::allocate(kBytes);
  std::deque<Completion> sends;
  const auto ranks = make_shm_ranks(2);
  SharedMemory& sender = *ranks[0]->shared_memory();
  SharedMemory& reader = *ranks[1]->shared_memory();
  const Recipient recipient{Rank(1), 0};
  const auto refer = [&] {
    const auto sequence = sends.size();
    return sender.refer({memory.data(), kBytes}, {&recipient, 1}, Tag::make(sequence, 0, 0), 7,
                        sends.emplace_back());
  };
  while (sends.size() < 200 && refer()) continue;
  const std::size_t under_way = sends.size() - 1;
  EXPECT_GE(under_way, 32U);
  EXPECT_LE(under_way, 64U);
  sends.pop_back();
  const Tag first = Tag::make(0, 0, 0);
  ASSERT_NE(reader.peek(Rank(0), first).data, nullptr);
  EXPECT_TRUE(reader.release(Rank(0), first));
  ranks[0]->context()->progress();
  EXPECT_TRUE(sends.front().finished());
  EXPECT_TRUE(refer()) << "one is done, so there is room for one";
}

TEST(Room, MemoryOfASenderThatGaveUpIsNotTrusted) {
  const RegisteredBuffer memory = RegisteredBuffer::allocate(kBytes);
  Completion sent, again, received;
  const auto ranks = make_shm_ranks(2);
  const Recipient recipient{Rank(1), 0};
  SharedMemory& sender = *ranks[0]->shared_memory();
  ASSERT_TRUE(sender.refer({memory.data(), kBytes}, {&recipient, 1}, Tag::make(1, 0, 0), 7, sent));
  ASSERT_TRUE(sender.refer({memory.data(), kBytes}, {&recipient, 1}, Tag::make(2, 0, 0), 7, again));
  SharedMemory& reader = *ranks[1]->shared_memory();
  ASSERT_NE(reader.peek(Rank(0), Tag::make(1, 0, 0)).data, nullptr);
  ranks[0]->abort({ErrorCode::timeout, "too late"});
  EXPECT_FALSE(reader.release(Rank(0), Tag::make(1, 0, 0)));
  std::vector<std::byte> target(kBytes);
  ASSERT_TRUE(ranks[1]
                  ->endpoint(Rank(0))
                  .receive_into({target.data(), kBytes}, Tag::make(2, 0, 0), 7, received)
                  .ok());
  EXPECT_EQ(received.state, Completion::State::failed);
}

TEST(Room, TheSmallRestOfALargeMessageKeepsItsPlace) {
  const auto ranks = make_shm_ranks(2);
  SharedMemory& sender = *ranks[0]->shared_memory();
  const auto large = pattern(sender.max_message() + 100, 1);
  Completion sent, received;
  ASSERT_TRUE(
      ranks[0]->endpoint(Rank(1)).send({large.data(), large.size()}, Tag::make(1, 0, 0), 7, sent).ok());
  const auto small = pattern(500, 2);
  const Recipient recipient{Rank(1), 0};
  ASSERT_TRUE(sender.publish({small.data(), small.size()}, {&recipient, 1}, Tag::make(2, 0, 0), 7));
  std::vector<std::byte> target(large.size());
  ASSERT_TRUE(ranks[1]
                  ->endpoint(Rank(0))
                  .receive_into({target.data(), target.size()}, Tag::make(1, 0, 0), 7, received)
                  .ok());
  const auto poll = [&] {
    for (const auto& rank : ranks) rank->context()->progress();
  };
  ASSERT_TRUE(poll_until(poll, [&] { return received.finished() && sent.finished(); }));
  EXPECT_TRUE(received.status.ok());
  EXPECT_EQ(target, large);
}

/// Rank 0 has found what rank 1 sent and waits for rank 2, who comes late; meanwhile rank 1 runs out of room.
TEST(Room, OperandsOfAFoldMayMoveWhileItWaits) {
  constexpr int kRanks = 3;
  constexpr int kOperations = 30;
  constexpr std::size_t kCount = 64 << 10;  // all operations together have more bytes than there is room
  auto transports = make_shm_ranks(kRanks);
  auto options = test_options();
  options.config.algorithm = "all_reduce:direct";
  struct Member {
    Engine engine{{std::chrono::microseconds(0), false}};
    std::unique_ptr<Communicator> communicator;
    std::vector<std::vector<std::int32_t>> data;
    std::vector<Operation> operations;
  };
  std::array<Member, kRanks> members;
  const auto start = [&](std::size_t rank) {
    Member& self = members[rank];
    for (int i = 0; i < kOperations; ++i) {
      auto& data = self.data.emplace_back(kCount, 10 * i + static_cast<int>(rank));
      const Buffer buffer{std::as_writable_bytes(std::span(data)).data(), kCount * sizeof(std::int32_t)};
      self.operations.push_back(
          self.communicator->all_reduce(buffer, buffer, DataType::int32, ReduceOp::sum));
    }
  };
  const auto poll = [&] {
    for (Member& member : members) member.engine.poll();
  };
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    members[rank].communicator =
        std::make_unique<Communicator>(std::move(transports[rank]), members[rank].engine, options);
  }
  start(0);
  start(1);
  const auto enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  ASSERT_TRUE(poll_until(poll, [&] { return std::chrono::steady_clock::now() > enough; }));
  start(2);
  for (Member& member : members) {
    for (std::size_t i = 0; i < kOperations; ++i) {
      ASSERT_TRUE(poll_until(poll, [&] { return member.operations[i].done(); })) << "operation " << i;
      ASSERT_TRUE(member.operations[i].status().ok());
      ASSERT_EQ(member.data[i], std::vector<std::int32_t>(kCount, 30 * static_cast<int>(i) + 3)) << i;
    }
  }
}

/// Rank 2 has heard of the calls of both others, who differ, before it makes its own, which is that of
/// rank 1.
TEST(Early, OfTwoCallsThatDifferTheWrongOneIsFound) {
  const Fingerprint right{Collective::broadcast, DataType::uint8, ReduceOp::sum, 1, kBytes};
  Fingerprint wrong = right;
  wrong.root = 0;
  for (const bool right_last : {true, false}) {
    std::vector<std::byte> data(kBytes);
    std::array<Completion, 2> sent;
    auto ranks = make_shm_ranks(3);
    Engine engine{{std::chrono::microseconds(0), false}};
    Communicator late(std::move(ranks[2]), engine, test_options());
    for (const std::size_t from :
         right_last ? std::array<std::size_t, 2>{0, 1} : std::array<std::size_t, 2>{1, 0}) {
      const Stamp stamp = (from == 0 ? wrong : right).pack();
      ASSERT_TRUE(ranks[from]
                      ->endpoint(Rank(2))
                      .send({data.data(), kBytes}, Tag::make(1, 0, 0), stamp, sent[from])
                      .ok());
      engine.poll();
    }
    const Status outcome = late.broadcast({data.data(), kBytes}, DataType::uint8, Rank(1)).wait();
    EXPECT_EQ(outcome.code(), ErrorCode::mismatch) << outcome.message();
    EXPECT_EQ(outcome.peer(), 0);
  }
}

}  // namespace
}  // namespace ucxring::testing
