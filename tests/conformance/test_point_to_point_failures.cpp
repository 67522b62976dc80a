// What sends and receives say when their peer is late, gone or never called. On the simulator: exact and
// repeatable.
#include <gtest/gtest.h>

#include "tests/conformance/peer_groups.hpp"

namespace ucxring::testing {
namespace {

Communicator::Options quick() {
  auto options = test_options();
  options.timeout = std::chrono::seconds(3);
  return options;
}

void expect_words(const Status& status, ErrorCode code, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status.message();
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string_view::npos) << word << " in " << status.message();
  }
}

Operation receive_later(Communicator& group, Bytes& data, int source, std::int32_t tag) {
  return group.receive(buffer_of(data), DataType::uint8, Rank(source), tag);
}

TEST(LateReceive, NamesPeerAndTagAndWhatElseHasCome) {
  SimulatedGroup group(3, quick());
  const Bytes sent(8);
  for (const std::int32_t tag : {5, 11}) send(group.rank(2), sent, 1, tag).wait().throw_if_error();
  send(group.rank(0), sent, 1, 12).wait().throw_if_error();
  Bytes data(8);
  const Operation late = receive_later(group.rank(1), data, 2, 7);
  const Status outcome = late.wait();
  expect_words(outcome, ErrorCode::timeout,
               {"receive(uint8, 8 elements, tag 7) from rank 2", "3.0 s", "on rank 1", "group 'world'",
                "no message with tag 7 has come from rank 2", "tag 5 from rank 2", "tag 11 from rank 2"});
  EXPECT_EQ(outcome.message().find("tag 12"), std::string_view::npos) << "another rank's";
  EXPECT_EQ(outcome.peer(), 2);
  const Status elsewhere = failure_of([&] { group.rank(0).barrier().wait().throw_if_error(); });
  expect_words(elsewhere, ErrorCode::timeout, {"tag 7", "reported by rank 1"});
}

TEST(LateReceive, OfAnySourceSaysSo) {
  SimulatedGroup group(2, quick());
  Bytes data(8);
  CallOptions call;
  call.timeout = std::chrono::milliseconds(1500);
  const Status outcome = group.rank(1).receive_any(buffer_of(data), DataType::uint8, 7, call).wait();
  expect_words(outcome, ErrorCode::timeout, {"from any rank", "1.5 s", "no message with tag 7"});
}

TEST(LateSend, SaysThatNobodyReceives) {
  SimulatedGroup group(2, quick());
  const Bytes large(100'000);
  const Status outcome = send(group.rank(0), large, 1, -3).wait();
  expect_words(outcome, ErrorCode::timeout,
               {"send(uint8, 100000 elements, tag -3) to rank 1", "rank 1 has not posted a receive for it"});
}

TEST(LateReceive, DoesNotEndBeforeItsTime) {
  SimulatedGroup group(2, quick());
  Bytes first(8);
  Bytes second(8);
  CallOptions call;
  call.timeout = std::chrono::seconds(1);
  const Operation quick_one = group.rank(1).receive(buffer_of(first), DataType::uint8, Rank(0), 1, call);
  const Operation other = receive_later(group.rank(1), second, 0, 2);
  send(group.rank(0), first, 1, 1).wait().throw_if_error();
  quick_one.wait().throw_if_error();
  EXPECT_EQ(other.wait(std::chrono::milliseconds(1500)).code(), ErrorCode::timeout);
  EXPECT_FALSE(other.done()) << "only the waiting was over";
  send(group.rank(0), second, 1, 2).wait().throw_if_error();
  other.wait().throw_if_error();
}

TEST(LostPeer, EndsReceivesInFlight) {
  for (const bool any_source : {false, true}) {
    SimulatedGroup group(3, quick());
    Bytes data(8);
    const Operation waits = any_source ? group.rank(1).receive_any(buffer_of(data), DataType::uint8, 1)
                                       : receive_later(group.rank(1), data, 2, 1);
    group.network().kill(Rank(2), Time{});
    const Status outcome = waits.wait();
    expect_words(outcome, ErrorCode::peer_lost, {"rank 2"});
    EXPECT_EQ(outcome.peer(), 2);
  }
}

TEST(LostPeer, EndsSendsInFlight) {
  SimulatedGroup group(2, quick());
  const Bytes large(1'000'000);
  const Operation waits = send(group.rank(0), large, 1, 1);
  group.network().kill(Rank(1), Time{});
  expect_words(waits.wait(), ErrorCode::peer_lost, {"rank 1"});
}

TEST(PeerThatLeaves, EndsReceivesThatWaitForIt) {
  SimulatedGroup group(2, quick());
  Bytes data(8);
  const Operation waits = receive_later(group.rank(0), data, 1, 1);
  group.rank(1).shutdown();
  expect_words(waits.wait(), ErrorCode::peer_lost, {"receive(uint8, 8 elements, tag 1)", "rank 1 left"});
}

TEST(PeerThatLeaves, LeavesWhatItHasSent) {
  SimulatedGroup group(3, quick());
  const Bytes sent = numbered(100, 1, 1);
  send(group.rank(1), sent, 0, 1).wait().throw_if_error();
  group.rank(1).shutdown();
  EXPECT_EQ(receive(group.rank(0), 100, 1, 1), sent);
  Bytes data(100);
  const Operation any = group.rank(0).receive_any(buffer_of(data), DataType::uint8, 1);
  send(group.rank(2), sent, 0, 1).wait().throw_if_error();
  any.wait().throw_if_error();
  EXPECT_EQ(any.source(), Rank(2)) << "others may still send";
}

TEST(PeersThatLeave, EndAReceiveOfAnySource) {
  SimulatedGroup group(3, quick());
  Bytes data(8);
  const Operation waits = group.rank(1).receive_any(buffer_of(data), DataType::uint8, 1);
  group.rank(0).shutdown();
  group.rank(2).shutdown();
  expect_words(waits.wait(), ErrorCode::peer_lost, {"from any rank", "left"});
}

TEST(Shutdown, EndsWhatIsInFlight) {
  SimulatedGroup group(2, quick());
  Bytes data(8);
  const Bytes large(1'000'000);
  const Operation receives = receive_later(group.rank(0), data, 1, 1);
  const Operation sends = send(group.rank(0), large, 1, 1);
  group.rank(0).shutdown();
  EXPECT_TRUE(receives.done() && sends.done());
  expect_words(receives.status(), ErrorCode::transport, {"rank 0 shut group 'world' down"});
  expect_words(sends.status(), ErrorCode::transport, {"rank 0 shut group 'world' down"});
}

TEST(Abort, EndsWhatIsInFlightEverywhere) {
  SimulatedGroup group(2, quick());
  Bytes data(8);
  const Operation waits = receive_later(group.rank(0), data, 1, 1);
  group.rank(1).abort(Status(ErrorCode::transport, "enough"));
  expect_words(waits.wait(), ErrorCode::transport, {"enough", "reported by rank 1"});
  EXPECT_THROW(static_cast<void>(send(group.rank(0), data, 1, 1)), Error);
}

TEST(BadArguments, AreRefusedAndLeaveTheGroupUsable) {
  SimulatedGroup group(2, quick());
  Bytes data(6);
  Communicator& rank = group.rank(0);
  for (const int peer : {-1, 2, 9}) {
    expect_words(failure_of([&] { static_cast<void>(send(rank, data, peer, 0)); }),
                 ErrorCode::invalid_argument, {"send to rank " + std::to_string(peer), "group of 2"});
    expect_words(failure_of([&] { static_cast<void>(receive_later(rank, data, peer, 0)); }),
                 ErrorCode::invalid_argument, {"receive from rank " + std::to_string(peer)});
  }
  expect_words(
      failure_of([&] { static_cast<void>(rank.receive_any(buffer_of(data), DataType::float32, 0)); }),
      ErrorCode::invalid_argument, {"6 bytes", "float32"});
  for (const Status& outcome : group.run([](Communicator& each) { return each.barrier(); })) {
    EXPECT_TRUE(outcome.ok());
  }
}

/// Messages that overtake each other on the way are received in their order all the same.
TEST(Reordering, KeepsTheOrderOfEqualTags) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim::Options network;
    network.world_size = 2;
    network.seed = seed;
    network.jitter = std::chrono::microseconds(200);
    network.reorder = true;
    SimulatedGroup group(network, quick());
    std::vector<Bytes> sent;
    std::vector<Operation> sends;
    for (int i = 0; i < 40; ++i) {
      sends.push_back(
          send(group.rank(0), sent.emplace_back(numbered(i % 4 == 0 ? 20'000 : 50, i, 0)), 1, i % 2));
    }
    for (int i = 39; i >= 1; i -= 2) {
      const int nth = 40 - i;  // of the odd tags, oldest first
      EXPECT_TRUE(receive(group.rank(1), sent[static_cast<std::size_t>(nth)].size(), 0, 1) ==
                  sent[static_cast<std::size_t>(nth)]);
    }
    for (int i = 0; i < 40; i += 2) {
      EXPECT_TRUE(receive(group.rank(1), sent[static_cast<std::size_t>(i)].size(), 0, 0) ==
                  sent[static_cast<std::size_t>(i)]);
    }
    for (Operation& operation : sends) operation.wait().throw_if_error();
  }
}

}  // namespace
}  // namespace ucxring::testing
