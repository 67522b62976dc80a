// Conformance of transports: messages arrive whole, where they belong, in any order.
#include <poll.h>

#include <array>

#include "tests/conformance/transport_conformance.hpp"

namespace ucxring::testing {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 7, 4096, (64 << 10) + 1, 3 << 20};
constexpr Stamp kStamp = 0x0123456789abcdef;

/// A sink that gathers a message and checks that its ranges are consecutive.
struct Gathered {
  std::vector<std::byte> bytes;
  bool consecutive = true;

  [[nodiscard]] Sink sink() {
    return {[](void* context, std::size_t offset, std::span<const std::byte> range) {
              auto& self = *static_cast<Gathered*>(context);
              self.consecutive &= offset == self.bytes.size() && offset % 64 == 0;
              self.bytes.insert(self.bytes.end(), range.begin(), range.end());
            },
            this};
  }
};

TEST_P(TransportConformance, KnowsItsPlace) {
  const auto group = make(3);
  for (int rank = 0; rank < 3; ++rank) {
    group->on(rank, [&](Transport& transport) {
      EXPECT_EQ(transport.rank(), Rank(rank));
      EXPECT_EQ(transport.world_size(), 3);
      EXPECT_FALSE(transport.name().empty());
      EXPECT_THROW(transport.endpoint(Rank(3)), Error);
      EXPECT_THROW(transport.endpoint(Rank(-1)), Error);
      EXPECT_EQ(&transport.endpoint(Rank(1)), &transport.endpoint(Rank(1)));
    });
  }
}

TEST_P(TransportConformance, ReceivesIntoABufferPostedFirst) {
  const auto group = make(2);
  unsigned seed = 0;
  for (const std::size_t size : kSizes) {
    const Tag tag = Tag::make(1, 0, ++seed);
    const auto data = pattern(size, seed);
    std::vector<std::byte> target(size);
    Completion sent;
    Completion received;
    group->receive(1, 0, target, tag, kStamp, received);
    group->send(0, 1, data, tag, kStamp, sent);
    group->succeed(1, received);
    group->succeed(0, sent);
    EXPECT_EQ(target, data) << size << " bytes";
  }
}

TEST_P(TransportConformance, ReceivesIntoABufferPostedLate) {
  const auto group = make(2);
  unsigned seed = 0;
  for (const std::size_t size : kSizes) {
    const Tag tag = Tag::make(1, 0, ++seed);
    const auto data = pattern(size, seed);
    std::vector<std::byte> target(size);
    Completion sent;
    Completion received;
    group->send(0, 1, data, tag, kStamp, sent);
    group->settle();
    group->receive(1, 0, target, tag, kStamp, received);
    group->succeed(1, received);
    group->succeed(0, sent);
    EXPECT_EQ(target, data) << size << " bytes";
  }
}

TEST_P(TransportConformance, AppliesASink) {
  const auto group = make(2);
  unsigned seed = 0;
  for (const bool late : {false, true}) {
    for (const std::size_t size : kSizes) {
      const Tag tag = Tag::make(1, 0, ++seed);
      const auto data = pattern(size, seed);
      Gathered gathered;
      Completion sent;
      Completion received;
      const auto post = [&](Transport& transport) {
        return transport.endpoint(Rank(0)).receive_apply(gathered.sink(), size, tag, kStamp, received);
      };
      const auto receive = [&] { EXPECT_TRUE(group->on(1, post).ok()); };
      if (!late) receive();
      group->send(0, 1, data, tag, kStamp, sent);
      if (late) group->settle();
      if (late) receive();
      group->succeed(1, received);
      group->succeed(0, sent);
      EXPECT_EQ(gathered.bytes, data) << size << " bytes, late " << late;
      EXPECT_TRUE(gathered.consecutive) << size << " bytes, late " << late;
    }
  }
}

TEST_P(TransportConformance, MatchesByTagNotByOrder) {
  const auto group = make(2);
  constexpr unsigned kMessages = 20;
  for (const bool late : {false, true}) {
    std::vector<std::vector<std::byte>> data;
    std::vector<std::vector<std::byte>> targets;
    for (unsigned i = 0; i < kMessages; ++i) {
      data.push_back(pattern(i % 2 == 0 ? 100 + i : 20'000 + i, i));
      targets.emplace_back(data.back().size());
    }
    std::array<Completion, kMessages> sent;
    std::array<Completion, kMessages> received;
    const auto tag = [&](unsigned i) { return Tag::make(late ? 2 : 1, i % 3, i / 3); };
    const auto send_all = [&] {
      for (unsigned i = 0; i < kMessages; ++i) group->send(0, 1, data[i], tag(i), i, sent[i]);
    };
    if (late) send_all();
    if (late) group->settle();
    for (unsigned i = kMessages; i-- > 0;) group->receive(1, 0, targets[i], tag(i), i, received[i]);
    if (!late) send_all();
    for (unsigned i = 0; i < kMessages; ++i) group->succeed(1, received[i]);
    for (unsigned i = 0; i < kMessages; ++i) group->succeed(0, sent[i]);
    EXPECT_EQ(targets, data);
  }
}

TEST_P(TransportConformance, CarriesManyMessagesAtOnceAmongAllPairs) {
  constexpr int kRanks = 3;
  constexpr std::size_t kMessages = 200;
  const auto group = make(kRanks);
  struct Exchange {
    int from;
    int to;
    Tag tag;
    std::vector<std::byte> data;
    std::vector<std::byte> target;
    Completion sent;
    Completion received;
  };
  std::vector<Exchange> exchanges;
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      for (std::size_t i = 0; i < kMessages; ++i) {
        const std::size_t size = i % 10 == 9 ? 10'000 : i;
        exchanges.push_back({from,
                             to,
                             Tag::make(7, i % 8, i / 8),
                             pattern(size, static_cast<unsigned>(from * 5 + to)),
                             std::vector<std::byte>(size),
                             {},
                             {}});
      }
    }
  }
  for (auto& e : exchanges) group->send(e.from, e.to, e.data, e.tag, kStamp, e.sent);
  for (auto& e : exchanges) group->receive(e.to, e.from, e.target, e.tag, kStamp, e.received);
  for (const auto& e : exchanges) {
    group->succeed(e.to, e.received);
    group->succeed(e.from, e.sent);
    EXPECT_EQ(e.target, e.data);
  }
}

TEST_P(TransportConformance, SendsToItself) {
  const auto group = make(1);
  for (const std::size_t size : kSizes) {
    const Tag tag = Tag::make(1, 0, size & 0xfff);
    const auto data = pattern(size, 3);
    std::vector<std::byte> target(size);
    Completion sent;
    Completion received;
    group->send(0, 0, data, tag, kStamp, sent);
    group->receive(0, 0, target, tag, kStamp, received);
    group->succeed(0, received);
    group->succeed(0, sent);
    EXPECT_EQ(target, data) << size << " bytes";
  }
}

TEST_P(TransportConformance, ControlMessagesArriveInOrder) {
  const auto group = make(2);
  RecordingListener listener;
  group->on(1, [&](Transport& transport) { transport.set_listener(&listener); });
  constexpr unsigned kMessages = 300;
  for (unsigned i = 0; i < kMessages; ++i) {
    const auto message = pattern(i % 100 == 99 ? Endpoint::kMaxControlBytes : i % 7, i);
    group->on(0, [&](Transport& transport) { transport.endpoint(Rank(1)).send_control(message); });
  }
  EXPECT_TRUE(group->until(1, [&](Transport&) { return listener.control.size() == kMessages; }));
  group->on(1, [&](Transport& transport) {
    for (unsigned i = 0; i < listener.control.size(); ++i) {
      EXPECT_EQ(listener.control[i].first, 0);
      EXPECT_EQ(listener.control[i].second, pattern(i % 100 == 99 ? Endpoint::kMaxControlBytes : i % 7, i));
    }
    EXPECT_TRUE(transport.take_activity());
    transport.set_listener(nullptr);
  });
}

TEST_P(TransportConformance, TellsOfUnexpectedMessagesOnly) {
  const auto group = make(2);
  RecordingListener listener;
  group->on(1, [&](Transport& transport) { transport.set_listener(&listener); });
  std::array<Completion, 4> done;
  std::vector<std::byte> target(8);
  const auto data = pattern(8, 1);
  group->receive(1, 0, target, Tag::make(1, 0, 0), kStamp, done[0]);
  group->send(0, 1, data, Tag::make(1, 0, 0), kStamp, done[1]);
  group->succeed(1, done[0]);
  group->send(0, 1, data, Tag::make(2, 3, 4), 99, done[2]);
  EXPECT_TRUE(group->until(1, [&](Transport&) { return !listener.unexpected.empty(); }));
  group->on(1, [&](Transport&) {
    ASSERT_EQ(listener.unexpected.size(), 1u);
    EXPECT_EQ(listener.unexpected[0].peer, 0);
    EXPECT_EQ(listener.unexpected[0].tag, Tag::make(2, 3, 4));
    EXPECT_EQ(listener.unexpected[0].stamp, 99u);
  });
  group->receive(1, 0, target, Tag::make(2, 3, 4), 99, done[3]);
  group->succeed(1, done[3]);
  group->on(1, [&](Transport& transport) { transport.set_listener(nullptr); });
}

TEST_P(TransportConformance, FirstListenerHearsWhatCameBefore) {
  const auto group = make(2);
  const auto data = pattern(8, 1);
  std::vector<std::byte> target(8);
  std::array<Completion, 5> done;
  group->send(0, 1, data, Tag::make(2, 3, 4), 99, done[0]);
  group->on(0, [&](Transport& transport) { transport.endpoint(Rank(1)).send_control(data); });
  group->send(0, 1, data, Tag::make(1, 0, 0), kStamp, done[1]);
  group->receive(1, 0, target, Tag::make(1, 0, 0), kStamp, done[2]);
  group->succeed(1, done[2]);
  group->settle();
  RecordingListener listener;
  RecordingListener late;
  group->on(1, [&](Transport& transport) {
    static_cast<void>(transport.take_activity());
    transport.set_listener(&listener);
    EXPECT_EQ(listener.unexpected.front().tag, Tag::make(2, 3, 4));
    EXPECT_EQ(listener.unexpected.front().stamp, 99u);
    ASSERT_EQ(listener.control.size(), 1u);
    EXPECT_EQ(listener.control[0].second, data);
    EXPECT_TRUE(transport.take_activity());
    transport.set_listener(nullptr);
  });
  group->on(0, [&](Transport& transport) { transport.endpoint(Rank(1)).send_control(data); });
  group->settle();
  group->on(1, [&](Transport& transport) {
    transport.set_listener(&late);
    EXPECT_TRUE(late.unexpected.empty());
    EXPECT_TRUE(late.control.empty()) << "nobody was to hear it";
    transport.set_listener(nullptr);
  });
}

TEST_P(TransportConformance, ReportsActivityOnce) {
  const auto group = make(2);
  std::array<std::byte, 8> target{};
  const auto data = pattern(8, 2);
  Completion sent;
  Completion received;
  group->receive(1, 0, target, Tag::make(1, 0, 0), kStamp, received);
  group->on(1, [](Transport& transport) { EXPECT_FALSE(transport.take_activity()); });
  group->send(0, 1, data, Tag::make(1, 0, 0), kStamp, sent);
  group->succeed(1, received);
  group->succeed(0, sent);
  for (int rank = 0; rank < 2; ++rank) {
    group->on(rank, [](Transport& transport) {
      EXPECT_TRUE(transport.take_activity());
      EXPECT_FALSE(transport.take_activity());
    });
  }
}

TEST_P(TransportConformance, IsFlushedWhenAllIsSent) {
  const auto group = make(2);
  const auto data = pattern(1 << 20, 5);
  std::vector<std::byte> target(data.size());
  Completion sent;
  Completion received;
  group->send(0, 1, data, Tag::make(1, 0, 0), kStamp, sent);
  group->receive(1, 0, target, Tag::make(1, 0, 0), kStamp, received);
  group->succeed(1, received);
  group->succeed(0, sent);
  EXPECT_TRUE(group->until(0, [](Transport& transport) { return transport.flushed(); }));
}

TEST_P(TransportConformance, TwoGroupsDoNotMix) {
  const auto first = make(2);
  const auto second = make(2);
  const Tag tag = Tag::make(1, 0, 0);
  const auto data = pattern(64, 1);
  const auto other = pattern(64, 2);
  std::vector<std::byte> target(64);
  std::vector<std::byte> other_target(64);
  std::array<Completion, 4> done;
  first->send(0, 1, data, tag, kStamp, done[0]);
  second->send(0, 1, other, tag, kStamp, done[1]);
  second->receive(1, 0, other_target, tag, kStamp, done[3]);
  first->receive(1, 0, target, tag, kStamp, done[2]);
  second->succeed(1, done[3]);
  first->succeed(1, done[2]);
  first->succeed(0, done[0]);
  second->succeed(0, done[1]);
  EXPECT_EQ(target, data);
  EXPECT_EQ(other_target, other);
}

TEST_P(TransportConformance, WakesASleeper) {
  if (GetParam().threaded) GTEST_SKIP() << "other threads take the events";
  const auto group = make(2);
  const auto context = group->on(1, [](Transport& transport) { return transport.context(); });
  if (context->event_fd() < 0) GTEST_SKIP() << "this transport never sleeps";
  group->settle();
  for (int tries = 0; !context->arm(); ++tries) {
    ASSERT_LT(tries, 1000);
    context->progress();
  }
  pollfd readable{context->event_fd(), POLLIN, 0};
  Completion sent;
  const auto data = pattern(8, 1);
  group->send(0, 1, data, Tag::make(1, 0, 0), kStamp, sent);
  int ready = 0;
  for (int tries = 0; ready == 0 && tries < 2000; ++tries) {
    group->on(0, [](Transport& transport) { transport.context()->progress(); });
    ready = ::poll(&readable, 1, 10);
  }
  EXPECT_EQ(ready, 1);
  std::vector<std::byte> target(8);
  Completion received;
  group->receive(1, 0, target, Tag::make(1, 0, 0), kStamp, received);
  group->succeed(1, received);
  EXPECT_EQ(target, data);
}

}  // namespace
}  // namespace ucxring::testing
