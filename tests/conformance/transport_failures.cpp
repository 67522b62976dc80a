// Conformance of transports: what does not fit, who is lost, and that an abort lets go of every buffer.
#include <algorithm>
#include <array>

#include "tests/conformance/transport_conformance.hpp"

namespace ucxring::testing {
namespace {

struct Mismatch {
  std::size_t sent_bytes;
  std::size_t expected_bytes;
  Stamp sent_stamp;
  Stamp expected_stamp;
};

constexpr Mismatch kMismatches[] = {{8, 16, 1, 1},
                                    {16, 8, 1, 1},
                                    {0, 8, 1, 1},
                                    {8, 8, 1, 2},
                                    {8, 0, 1, 2},
                                    {1 << 20, 1 << 20, 1, 2},
                                    {1 << 20, 100'000, 1, 1}};

TEST_P(TransportConformance, MismatchWritesNothingAndTellsBothSides) {
  const auto group = make(2);
  unsigned step = 0;
  for (const bool late : {false, true}) {
    for (const Mismatch& mismatch : kMismatches) {
      const Tag tag = Tag::make(1, 0, ++step);
      const auto data = pattern(mismatch.sent_bytes, 1);
      std::vector<std::byte> target(mismatch.expected_bytes, std::byte{0x5a});
      const auto untouched = target;
      Completion sent;
      Completion received;
      const auto post = [&] { group->receive(1, 0, target, tag, mismatch.expected_stamp, received); };
      if (!late) post();
      group->send(0, 1, data, tag, mismatch.sent_stamp, sent);
      if (late) group->settle();
      if (late) post();
      group->finish(1, received);
      group->finish(0, sent);
      group->on(1, [&](Transport&) {
        EXPECT_EQ(received.state, Completion::State::failed);
        EXPECT_EQ(received.status.code(), ErrorCode::mismatch);
        EXPECT_EQ(received.received_bytes, mismatch.sent_bytes);
        EXPECT_EQ(received.received_stamp, mismatch.sent_stamp);
        EXPECT_EQ(target, untouched);
      });
    }
  }
}

TEST_P(TransportConformance, GoesOnAfterAMismatch) {
  const auto group = make(2);
  std::array<Completion, 4> done;
  std::vector<std::byte> target(16);
  const auto data = pattern(16, 4);
  group->receive(1, 0, target, Tag::make(1, 0, 0), 1, done[0]);
  group->send(0, 1, data, Tag::make(1, 0, 0), 2, done[1]);
  group->finish(1, done[0]);
  group->receive(1, 0, target, Tag::make(2, 0, 0), 1, done[2]);
  group->send(0, 1, data, Tag::make(2, 0, 0), 1, done[3]);
  group->succeed(1, done[2]);
  EXPECT_EQ(target, data);
}

TEST_P(TransportConformance, LostPeerFailsWhatWasPostedToIt) {
  auto group = make(3);
  std::array<RecordingListener, 3> listeners;
  std::array<Completion, 4> done;
  std::vector<std::byte> small(8);
  std::vector<std::byte> large(1 << 20);
  for (const int survivor : {0, 2}) {
    group->on(survivor, [&](Transport& transport) {
      transport.set_listener(&listeners[static_cast<std::size_t>(survivor)]);
    });
  }
  group->receive(0, 1, small, Tag::make(1, 0, 0), 1, done[0]);
  group->send(0, 1, large, Tag::make(1, 0, 1), 1, done[1]);
  if (!group->group().kill(Rank(1))) {
    group.reset();
    GTEST_SKIP() << "this transport cannot lose a rank inside one process";
  }
  for (std::size_t i = 0; i < 2; ++i) {
    group->finish(0, done[i]);
    EXPECT_EQ(done[i].status.code(), ErrorCode::peer_lost);
    EXPECT_EQ(done[i].status.peer(), 1);
  }
  for (const int survivor : {0, 2}) {
    auto& lost = listeners[static_cast<std::size_t>(survivor)].lost;
    EXPECT_TRUE(group->until(survivor, [&](Transport&) { return !lost.empty(); })) << "rank " << survivor;
    group->on(survivor, [&](Transport& transport) {
      ASSERT_EQ(lost.size(), 1u);
      EXPECT_EQ(lost[0].first, 1);
      EXPECT_EQ(lost[0].second.code(), ErrorCode::peer_lost);
      Completion late;
      const Status refused = transport.endpoint(Rank(1)).send(ConstBuffer(), Tag::make(2, 0, 0), 1, late);
      EXPECT_EQ(refused.code(), ErrorCode::peer_lost);
      EXPECT_EQ(late.state, Completion::State::idle);
    });
  }
  const auto data = pattern(8, 9);
  group->send(0, 2, data, Tag::make(3, 0, 0), 1, done[2]);
  group->receive(2, 0, small, Tag::make(3, 0, 0), 1, done[3]);
  group->succeed(2, done[3]);
  EXPECT_EQ(small, data);
  group.reset();  // before the listeners
}

TEST_P(TransportConformance, AbortFailsEverythingAndLaterPosts) {
  const auto group = make(2);
  std::array<Completion, 4> done;
  std::vector<std::byte> small(8);
  std::vector<std::byte> large(1 << 20);
  group->receive(1, 0, small, Tag::make(1, 0, 0), 1, done[0]);
  group->receive(1, 0, large, Tag::make(1, 0, 1), 1, done[1]);
  const auto data = pattern(1 << 20, 1);
  group->send(1, 0, data, Tag::make(1, 0, 2), 1, done[2]);
  group->on(1, [&](Transport& transport) {
    transport.abort(Status(ErrorCode::timeout, "enough"));
    transport.abort(Status(ErrorCode::internal, "the first reason counts"));
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(done[i].finished());
      // The send may have ended by itself before, where the transport needs no receiver for that.
      if (i == 2 && done[i].state == Completion::State::done) continue;
      EXPECT_EQ(done[i].state, Completion::State::failed);
      EXPECT_EQ(done[i].status.message(), "enough");
    }
    Completion& late = done[3];
    EXPECT_EQ(transport.endpoint(Rank(0)).send(ConstBuffer(), Tag::make(2, 0, 0), 1, late).message(),
              "enough");
    EXPECT_EQ(transport.endpoint(Rank(0)).receive_into(Buffer{}, Tag::make(2, 0, 0), 1, late).message(),
              "enough");
    EXPECT_EQ(late.state, Completion::State::idle);
  });
}

TEST_P(TransportConformance, AbortedReceiverIsNotWrittenAnyMore) {
  const auto group = make(2);
  std::vector<std::byte> target(1 << 20, std::byte{0x5a});
  const auto untouched = target;
  const auto data = pattern(target.size(), 1);
  Completion received;
  Completion sent;
  group->receive(1, 0, target, Tag::make(1, 0, 0), 1, received);
  group->on(1, [&](Transport& transport) { transport.abort(Status(ErrorCode::timeout, "enough")); });
  const Status status = group->on(0, [&](Transport& transport) {
    return transport.endpoint(Rank(1)).send(ConstBuffer(data.data(), data.size()), Tag::make(1, 0, 0), 1,
                                            sent);
  });
  group->settle();
  EXPECT_EQ(target, untouched);
  // Ends the send, whose buffer dies before the group.
  group->on(0, [&](Transport& transport) { transport.abort(Status(ErrorCode::timeout, "enough")); });
  EXPECT_TRUE(!status.ok() || sent.finished());
}

TEST_P(TransportConformance, AbortedSenderIsNotReadAnyMore) {
  for (int round = 0; round < 20; ++round) {
    const auto group = make(2);
    const auto expected = pattern(3 << 20, static_cast<unsigned>(round));
    auto data = std::make_unique<std::vector<std::byte>>(expected);
    std::vector<std::byte> target(expected.size());
    Completion sent;
    Completion received;
    group->send(0, 1, *data, Tag::make(1, 0, 0), 1, sent);
    if (round % 2 == 1) group->settle();
    group->receive(1, 0, target, Tag::make(1, 0, 0), 1, received);
    group->on(0, [&](Transport& transport) {
      transport.abort(Status(ErrorCode::timeout, "enough"));
      std::fill(data->begin(), data->end(), std::byte{0xee});
      data.reset();
    });
    group->settle();
    group->on(1, [&](Transport& transport) {
      transport.abort(Status(ErrorCode::timeout, "enough"));
      ASSERT_TRUE(received.finished());
      EXPECT_TRUE(received.state == Completion::State::failed || target == expected);
    });
  }
}

TEST_P(TransportConformance, ControlMessagesSentBeforeAnAbortArrive) {
  const auto group = make(2);
  RecordingListener listener;
  group->on(1, [&](Transport& transport) { transport.set_listener(&listener); });
  const auto message = pattern(100, 6);
  group->on(0, [&](Transport& transport) {
    transport.endpoint(Rank(1)).send_control(message);
    transport.abort(Status(ErrorCode::timeout, "enough"));
  });
  EXPECT_TRUE(group->until(1, [&](Transport&) { return !listener.control.empty(); }));
  group->on(1, [&](Transport& transport) {
    EXPECT_EQ(listener.control.at(0).second, message);
    transport.set_listener(nullptr);
  });
}

TEST_P(TransportConformance, FirstListenerHearsOfAFarewellBefore) {
  const auto group = make(2);
  std::vector<std::byte> target(8);
  Completion received;
  group->receive(1, 0, target, Tag::make(1, 0, 0), 1, received);
  group->on(0, [&](Transport& transport) { transport.abort(Status(ErrorCode::transport, "it is late")); });
  group->finish(1, received);
  group->settle();
  RecordingListener listener;
  group->on(1, [&](Transport& transport) {
    transport.set_listener(&listener);
    EXPECT_EQ(listener.left.size() + listener.lost.size() > 0, true);
    transport.set_listener(nullptr);
  });
}

TEST_P(TransportConformance, FarewellIsHeardAfterWhatWasSent) {
  const auto group = make(2);
  RecordingListener listener;
  group->on(1, [&](Transport& transport) { transport.set_listener(&listener); });
  const auto data = pattern(8, 7);
  const Tag tag = Tag::make(1, 0, 0);
  Completion sent;
  group->send(0, 1, data, tag, 1, sent);
  group->succeed(0, sent);
  group->on(0, [&](Transport& transport) { transport.abort(Status(ErrorCode::transport, "it is late")); });
  EXPECT_TRUE(group->until(1, [&](Transport&) { return !listener.left.empty(); }));
  std::vector<std::byte> target(8);
  Completion received;
  group->receive(1, 0, target, tag, 1, received);
  group->succeed(1, received);
  group->on(1, [&](Transport& transport) {
    EXPECT_EQ(listener.left.size(), 1u);
    EXPECT_EQ(listener.left.at(0).first, 0);
    EXPECT_TRUE(listener.lost.empty()) << "nothing was posted";
    EXPECT_EQ(target, data);
    transport.set_listener(nullptr);
  });
}

}  // namespace
}  // namespace ucxring::testing
