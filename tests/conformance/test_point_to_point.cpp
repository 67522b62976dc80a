// Sends and receives over every transport.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/conformance/peer_groups.hpp"
#include "transport/registered_buffer.hpp"

namespace ucxring::testing {
namespace {

constexpr std::size_t kEager = 8192;
constexpr std::size_t kExchange = std::size_t{16} << 20U;

class PointToPoint : public ::testing::TestWithParam<PeerGroups> {
 protected:
  static void run(int world_size, const std::function<void(Communicator&)>& body) {
    GetParam().run(world_size, test_options(), body);
  }
};

INSTANTIATE_TEST_SUITE_P(Over, PointToPoint, ::testing::ValuesIn(all_peer_groups()),
                         [](const auto& each) { return each.param.name; });

TEST_P(PointToPoint, EachReceiveGetsTheMessageOfItsTag) {
  run(3, [](Communicator& group) {
    const int rank = group.rank().value;
    const std::vector<std::int32_t> tags{0,       1,    -1, std::numeric_limits<std::int32_t>::min(),
                                         1 << 20, 4096, 7,  std::numeric_limits<std::int32_t>::max()};
    std::vector<Bytes> buffers;
    std::vector<Operation> sends;
    for (std::size_t i = 0; rank < 2 && i < tags.size(); ++i) {
      sends.push_back(send(group, buffers.emplace_back(numbered(10 + i, rank, tags[i])), 2, tags[i]));
    }
    std::int32_t sum = 1;
    const Buffer whole{reinterpret_cast<std::byte*>(&sum), sizeof sum};
    group.all_reduce(whole, whole, DataType::int32, ReduceOp::sum).wait().throw_if_error();
    EXPECT_EQ(sum, 3) << "collectives go their own way";
    for (std::size_t i = tags.size(); rank == 2 && i-- > 0;) {
      for (const int source : {0, 1}) {
        EXPECT_EQ(receive(group, 10 + i, source, tags[i]), numbered(10 + i, source, tags[i])) << tags[i];
      }
    }
    for (Operation& operation : sends) operation.wait().throw_if_error();
    EXPECT_EQ(group.sequence(), 1u) << "sends have no number among collectives";
  });
}

TEST_P(PointToPoint, EqualTagsAreReceivedInTheOrderTheyWereSent) {
  run(2, [](Communicator& group) {
    const std::vector<std::size_t> sizes{0, 1, kEager, kEager + 1, 64, 100'000, 3, 600'000, 0, 5};
    constexpr int kRounds = 30;
    const int rank = group.rank().value;
    std::vector<Bytes> sent;
    std::vector<Bytes> received;
    std::vector<Operation> operations;
    for (int round = 0; round < kRounds; ++round) {
      for (const std::size_t bytes : sizes) {
        if (rank == 0) {
          sent.push_back(numbered(bytes, round, 9));
          operations.push_back(send(group, sent.back(), 1, 9));
        } else {
          received.emplace_back(bytes);
          operations.push_back(group.receive(buffer_of(received.back()), DataType::uint8, Rank(0), 9));
        }
      }
    }
    for (Operation& operation : operations) operation.wait().throw_if_error();
    for (std::size_t i = 0; i < received.size(); ++i) {
      const auto round = static_cast<int>(i / sizes.size());
      ASSERT_EQ(received[i], numbered(sizes[i % sizes.size()], round, 9)) << i;
    }
  });
}

TEST_P(PointToPoint, LargeExchangesMayBeListedInAnyOrder) {
  run(3, [](Communicator& group) {
    const int rank = group.rank().value;
    std::vector<Bytes> sent;
    std::vector<Bytes> received(3, Bytes(kExchange));
    std::vector<Operation> operations;
    for (int peer = 0; peer < 3; ++peer) sent.push_back(numbered(kExchange, rank, peer));
    const auto all_sends = [&] {
      for (int peer = 0; peer < 3; ++peer) {
        if (peer != rank) operations.push_back(send(group, sent[static_cast<std::size_t>(peer)], peer, 1));
      }
    };
    if (rank != 1) all_sends();
    for (int peer = 2; peer >= 0; --peer) {
      const Buffer target = buffer_of(received[static_cast<std::size_t>(peer)]);
      if (peer != rank) operations.push_back(group.receive(target, DataType::uint8, Rank(peer), 1));
    }
    if (rank == 1) all_sends();
    for (Operation& operation : operations) operation.wait().throw_if_error();
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != rank) {
        EXPECT_TRUE(received[static_cast<std::size_t>(peer)] == numbered(kExchange, peer, rank)) << peer;
      }
    }
  });
}

TEST_P(PointToPoint, ARankMaySendToItself) {
  for (const int world_size : {1, 2}) {
    run(world_size, [](Communicator& group) {
      const int self = group.rank().value;
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, kEager + 1, std::size_t{3'000'000}}) {
        const Bytes sent = numbered(bytes, self, 4);
        Bytes first(bytes);
        const Operation early = group.receive(buffer_of(first), DataType::uint8, Rank(self), 4);
        const Operation one = send(group, sent, self, 4);
        const Operation two = send(group, sent, self, 5);
        EXPECT_TRUE(receive(group, bytes, self, 5) == sent) << "posted after the send";
        for (const Operation& operation : {early, one, two}) operation.wait().throw_if_error();
        EXPECT_TRUE(first == sent) << "posted before the send";
        EXPECT_EQ(early.source(), Rank(self));
      }
    });
  }
}

TEST_P(PointToPoint, AnySourceTakesWhatCameFirst) {
  run(3, [](Communicator& group) {
    constexpr int kMessages = 10;
    const int rank = group.rank().value;
    for (const std::size_t bytes : {std::size_t{24}, std::size_t{50'000}}) {
      const auto tag = static_cast<std::int32_t>(bytes);
      std::vector<Bytes> sent;
      std::vector<Operation> sends;
      for (int i = 0; rank != 2 && i < kMessages; ++i) {
        sends.push_back(send(group, sent.emplace_back(numbered(bytes, rank, i)), 2, tag));
      }
      std::vector<int> seen(2, 0);
      for (int i = 0; rank == 2 && i < 2 * kMessages; ++i) {
        Bytes data(bytes);
        const Operation receive = group.receive_any(buffer_of(data), DataType::uint8, tag);
        receive.wait().throw_if_error();
        const int source = receive.source().value;
        ASSERT_TRUE(source == 0 || source == 1);
        EXPECT_TRUE(data == numbered(bytes, source, seen[static_cast<std::size_t>(source)]++));
      }
      for (Operation& operation : sends) operation.wait().throw_if_error();
    }
  });
}

TEST_P(PointToPoint, ReceivesOfAnySourceAndOfOneTakeTurns) {
  run(2, [](Communicator& group) {
    std::vector<Bytes> data{Bytes(4), Bytes(4), Bytes(4)};
    if (group.rank() == Rank(1)) {
      const Operation first = group.receive(buffer_of(data[0]), DataType::uint8, Rank(0), 1);
      const Operation any = group.receive_any(buffer_of(data[1]), DataType::uint8, 1);
      const Operation last = group.receive(buffer_of(data[2]), DataType::uint8, Rank(0), 1);
      group.barrier().wait().throw_if_error();
      for (const Operation& each : {last, any, first}) each.wait().throw_if_error();
      for (int i = 0; i < 3; ++i) EXPECT_EQ(data[static_cast<std::size_t>(i)], numbered(4, i, 1)) << i;
    } else {
      group.barrier().wait().throw_if_error();
      for (int i = 0; i < 3; ++i) send(group, numbered(4, i, 1), 1, 1).wait().throw_if_error();
    }
  });
}

TEST_P(PointToPoint, ALargerBufferKeepsItsRest) {
  run(2, [](Communicator& group) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{12}, std::size_t{100'000}}) {
      if (group.rank() == Rank(0)) {
        send(group, numbered(bytes, 1, 2), 1, 2).wait().throw_if_error();
        continue;
      }
      Bytes data(bytes + 40, std::byte{77});
      const Operation receive = group.receive(buffer_of(data), DataType::uint8, Rank(0), 2);
      receive.wait().throw_if_error();
      EXPECT_EQ(receive.received_bytes(), bytes);
      EXPECT_EQ(receive.source(), Rank(0));
      Bytes wanted = numbered(bytes, 1, 2);
      wanted.resize(bytes + 40, std::byte{77});
      EXPECT_TRUE(data == wanted);
    }
  });
}

TEST_P(PointToPoint, ASmallSendNeedsNoReceive) {
  run(2, [](Communicator& group) {
    const Bytes small = numbered(4096, 0, 0);
    const Bytes large = numbered(kEager + 1, 0, 1);
    const int peer = 1 - group.rank().value;
    send(group, small, peer, 0).wait().throw_if_error();
    const Operation waits = send(group, large, peer, 1);
    EXPECT_EQ(waits.wait(std::chrono::milliseconds(20)).code(), ErrorCode::timeout);
    EXPECT_FALSE(waits.done()) << "a large one waits";
    group.barrier().wait().throw_if_error();
    EXPECT_TRUE(receive(group, large.size(), peer, 1) == large);
    EXPECT_TRUE(receive(group, small.size(), peer, 0) == small);
    waits.wait().throw_if_error();
  });
}

TEST_P(PointToPoint, RanksThatAreNotConcernedTakeNoPart) {
  run(4, [](Communicator& group) {
    const int rank = group.rank().value;
    if (rank == 0 || rank == 3) {
      const Bytes sent = numbered(1'000'000, rank, 0);
      const Operation operation = send(group, sent, 3 - rank, 0);
      EXPECT_TRUE(receive(group, sent.size(), 3 - rank, 0) == numbered(1'000'000, 3 - rank, 0));
      operation.wait().throw_if_error();
    }
    group.barrier().wait().throw_if_error();
  });
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kMessages = 300;  // received in the reverse order, each looks at all others
#else
constexpr int kMessages = 3000;
#endif

TEST_P(PointToPoint, ThousandsMayBeInFlight) {
  run(2, [](Communicator& group) {
    const int peer = 1 - group.rank().value;
    std::vector<std::int64_t> sent(kMessages);
    std::vector<std::int64_t> received(kMessages);
    std::iota(sent.begin(), sent.end(), group.rank().value * kMessages);
    std::vector<Operation> operations;
    const auto bytes_of = [](std::int64_t& value) {
      return Buffer{reinterpret_cast<std::byte*>(&value), sizeof value};
    };
    const auto at = [](std::vector<std::int64_t>& values, int i) -> std::int64_t& {
      return values[static_cast<std::size_t>(i)];
    };
    for (int i = 0; i < kMessages; ++i) {
      operations.push_back(group.send(bytes_of(at(sent, i)), DataType::int64, Rank(peer), i));
    }
    for (int i = kMessages; i-- > 0;) {
      operations.push_back(group.receive(bytes_of(at(received, i)), DataType::int64, Rank(peer), i));
    }
    for (Operation& operation : operations) operation.wait().throw_if_error();
    for (int i = 0; i < kMessages; ++i) ASSERT_EQ(at(received, i), peer * kMessages + i);
  });
}

TEST_P(PointToPoint, MessagesThatNobodyWantsYetAreOutOfTheWay) {
  run(2, [](Communicator& group) {
    constexpr int kUnwanted = 1000;
    const int rank = group.rank().value;
    std::vector<Bytes> sent;
    for (int i = 0; i < kUnwanted; ++i) {
      const auto bytes = static_cast<std::size_t>(i % 7 == 0 ? 3000 : i % 5);
      send(group, sent.emplace_back(numbered(bytes, rank, i)), 1 - rank, i % 3).wait().throw_if_error();
      if (i % 50 == 0) group.barrier().wait().throw_if_error();
    }
    for (const int tag : {2, 0, 1}) {
      for (int i = tag; i < kUnwanted; i += 3) {
        const std::size_t bytes = sent[static_cast<std::size_t>(i)].size();
        ASSERT_TRUE(receive(group, bytes, 1 - rank, tag) == numbered(bytes, 1 - rank, i)) << i;
      }
    }
  });
}

TEST_P(PointToPoint, RegisteredMemoryIsSentAsItIs) {
  run(2, [](Communicator& group) {
    constexpr std::size_t kBytes = 2'000'000;
    const RegisteredBuffer sent = Communicator::allocate(kBytes);
    const RegisteredBuffer received = Communicator::allocate(kBytes);
    const int rank = group.rank().value;
    for (int round = 0; round < 3; ++round) {
      const Bytes wanted = numbered(kBytes, rank, round);
      std::copy(wanted.begin(), wanted.end(), sent.data());
      const Operation out = group.send({sent.data(), kBytes}, DataType::uint8, Rank(1 - rank), 0);
      const Operation in = group.receive({received.data(), kBytes}, DataType::uint8, Rank(1 - rank), 0);
      in.wait().throw_if_error();
      out.wait().throw_if_error();
      EXPECT_TRUE(Bytes(received.data(), received.data() + kBytes) == numbered(kBytes, 1 - rank, round));
    }
  });
}

/// What rank 1 receives with, and what both ranks then read.
struct Misfit {
  const char* name;
  std::size_t sent_bytes;
  DataType received_type;
  std::size_t received_bytes;
  std::vector<std::string> words;
};

class MisfitOver : public ::testing::TestWithParam<std::tuple<PeerGroups, Misfit>> {};

TEST_P(MisfitOver, IsAnErrorOnBothSides) {
  const auto& [groups, misfit] = GetParam();
  std::vector<Status> outcomes(2);
  const auto body = [&](Communicator& group) {
    Bytes data(std::max(misfit.sent_bytes, misfit.received_bytes));
    const auto call = [&] {
      if (group.rank() == Rank(0)) {
        group.send({data.data(), misfit.sent_bytes}, DataType::float32, Rank(1), 6).wait().throw_if_error();
      } else {
        group.receive({data.data(), misfit.received_bytes}, misfit.received_type, Rank(0), 6)
            .wait()
            .throw_if_error();
      }
      group.barrier().wait().throw_if_error();
    };
    outcomes[static_cast<std::size_t>(group.rank().value)] = failure_of(call);
  };
  EXPECT_THROW(groups.run(2, test_options(), body), Error) << "the group is dead afterwards";
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), ErrorCode::mismatch) << outcome.message();
    for (const std::string& word : misfit.words) {
      EXPECT_NE(outcome.message().find(word), std::string_view::npos) << word << " in " << outcome.message();
    }
  }
}

const std::vector<Misfit> kMisfits{
    {"small_message", 64, DataType::float32, 60, {"rank 0", "rank 1", "tag 6", "64 bytes", "of 60 bytes"}},
    {"large_message",
     40'000,
     DataType::float32,
     8,
     {"rank 0", "rank 1", "tag 6", "40000 bytes", "of 8 bytes"}},
    {"type", 64, DataType::int32, 64, {"rank 0", "rank 1", "tag 6", "float32", "int32", "same dtype"}},
};

INSTANTIATE_TEST_SUITE_P(Each, MisfitOver,
                         ::testing::Combine(::testing::ValuesIn(all_peer_groups()),
                                            ::testing::ValuesIn(kMisfits)),
                         [](const auto& each) {
                           return std::get<0>(each.param).name + "_" + std::get<1>(each.param).name;
                         });

}  // namespace
}  // namespace ucxring::testing
