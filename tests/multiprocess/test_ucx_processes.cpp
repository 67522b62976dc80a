#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "tests/support/processes.hpp"
#include "transport/store.hpp"
#include "transport/ucx/ucx.hpp"

namespace ucxring::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

std::vector<std::byte> numbered(std::size_t bytes, std::size_t seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * 31 + (i >> 8) + seed) & 0xff);
  return data;
}

struct LossCounter final : Listener {
  void on_unexpected(Rank, Tag, Stamp) override {}
  void on_control(Rank, std::span<const std::byte>) override { ++controls; }
  void on_peer_lost(Rank peer, const Status&) override { lost.push_back(peer.value); }
  std::vector<int> lost;
  int controls = 0;
};

/// A rank's process in a group over TCP loopback.
struct Member {
  explicit Member(const ProcessRank& process, Config config = {})
      : context(ucx::make_context(config, "localhost")),
        transport(ucx::create(context, make_file_store(process.directory / "store"), process.rank,
                              process.world_size, 30s)) {
    transport->set_listener(&listener);
  }

  template <typename Condition>
  bool until(Condition condition, Clock::duration limit = 30s) const {
    const auto end = Clock::now() + limit;
    while (!condition() && Clock::now() < end) {
      if (!context->progress()) sched_yield();
    }
    return condition();
  }

  void succeed(const Completion& done) const {
    require(until([&] { return done.finished(); }), "an operation hangs");
    done.status.throw_if_error();
  }

  LossCounter listener;
  std::shared_ptr<Context> context;
  std::unique_ptr<Transport> transport;
};

struct Sum {
  std::vector<std::byte>* target;
  std::size_t covered = 0;
  static void apply(void* self, std::size_t offset, std::span<const std::byte> bytes) {
    auto& sum = *static_cast<Sum*>(self);
    require(offset == sum.covered, "ranges out of order");
    sum.covered += bytes.size();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      auto& byte = (*sum.target)[offset + i];
      byte = static_cast<std::byte>(static_cast<unsigned>(byte) + static_cast<unsigned>(bytes[i]));
    }
  }
};

/// Both directions at once, into a buffer and through a sink.
void exchange_sizes(const ProcessRank& process, const Config& config) {
  Member member(process, config);
  Endpoint& peer = member.transport->endpoint(Rank(1 - process.rank.value));
  std::uint64_t sequence = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{65536},
                                  std::size_t{262143}, std::size_t{262144}, std::size_t{262145},
                                  std::size_t{524288}, std::size_t{4} << 20, (std::size_t{33} << 20) + 3}) {
    const auto out = numbered(bytes, static_cast<std::size_t>(process.rank.value));
    const auto expected = numbered(bytes, static_cast<std::size_t>(1 - process.rank.value));
    std::vector<std::byte> in(bytes);
    std::vector<std::byte> sum(bytes, std::byte{0});
    Sum sink{&sum};
    Completion done[4];
    peer.send({out.data(), bytes}, Tag::make(sequence, 0, 0), 1, done[0]).throw_if_error();
    peer.send({out.data(), bytes}, Tag::make(sequence, 1, 0), 1, done[1]).throw_if_error();
    peer.receive_apply({&Sum::apply, &sink}, bytes, Tag::make(sequence, 1, 0), 1, done[2]).throw_if_error();
    peer.receive_into({in.data(), bytes}, Tag::make(sequence, 0, 0), 1, done[3]).throw_if_error();
    for (const Completion& each : done) member.succeed(each);
    require(in == expected, fmt::format("{} bytes arrived changed", bytes));
    require(sum == expected && sink.covered == bytes, fmt::format("{} bytes applied wrongly", bytes));
    ++sequence;
  }
  require(member.until([&] { return member.transport->flushed(); }), "not flushed");
  require(member.listener.lost.empty(), "a living peer was reported lost");
}

const RegisterRole kExchange("exchange", [](const ProcessRank& process) { exchange_sizes(process, {}); });

// With the choice left to UCX large messages go by rendezvous.
const RegisterRole kRendezvous("rendezvous", [](const ProcessRank& process) {
  Config config;
  config.ucx_tls = "tcp,self,cma";
  config.net_devices = "lo";
  exchange_sizes(process, config);
});

/// Rank 2 dies; rank 0 only waits to receive from it, rank 1 floods it.
const RegisterRole kKilled("killed", [](const ProcessRank& process) {
  Member member(process);
  const auto data = numbered(std::size_t{1} << 20, 0);
  std::byte byte{};
  Completion first;
  Completion pending;
  if (process.rank == Rank(2)) {
    for (int peer = 0; peer < 2; ++peer) {
      member.transport->endpoint(Rank(peer))
          .send({data.data(), 1}, Tag::make(0, 0, 0), 0, first)
          .throw_if_error();
      member.succeed(first);
    }
    process.say("ready");
    member.until([] { return false; }, 60s);
    return;
  }
  Endpoint& doomed = member.transport->endpoint(Rank(2));
  doomed.receive_into({&byte, 1}, Tag::make(0, 0, 0), 0, first).throw_if_error();
  member.succeed(first);
  doomed.receive_into({&byte, 1}, Tag::make(1, 0, 0), 0, pending).throw_if_error();
  process.say(fmt::format("waiting{}", process.rank.value));
  std::uint64_t step = 0;
  Completion flood;
  while (!pending.finished()) {
    if (process.rank == Rank(1) && flood.finished() && step < 300) {
      if (!doomed.send({data.data(), data.size()}, Tag::make(2, 0, ++step), 0, flood).ok()) break;
    }
    member.context->progress();
  }
  require(member.until([&] { return pending.finished() && flood.finished(); }, kPrompt), "not told");
  require(pending.status.code() == ErrorCode::peer_lost && pending.status.peer() == 2, "another failure");
  require(pending.status.message().find("rank 2") != std::string_view::npos, "rank 2 is not named");
  require(member.listener.lost == std::vector<int>{2}, "the listener was not told once");
  Completion late;
  require(doomed.send({data.data(), 1}, Tag::make(3, 0, 0), 0, late).peer() == 2,
          "a dead peer takes messages");
  const auto begin = Clock::now();
  member.transport.reset();
  require(Clock::now() - begin < kPrompt, "leaving takes too long");
});

/// Rank 1 is stopped; rank 0 sees no error, and can abort at once.
const RegisterRole kStopped("stopped", [](const ProcessRank& process) {
  Member member(process);
  Endpoint& peer = member.transport->endpoint(Rank(1 - process.rank.value));
  auto data = numbered(std::size_t{64} << 20, 0);
  std::byte byte{};
  Completion greeted[2];
  peer.send({data.data(), 1}, Tag::make(0, 0, 0), 0, greeted[0]).throw_if_error();
  peer.receive_into({&byte, 1}, Tag::make(0, 0, 0), 0, greeted[1]).throw_if_error();
  for (const Completion& each : greeted) member.succeed(each);
  if (process.rank == Rank(1)) {
    process.say("ready");
    member.until([] { return false; }, 60s);
    return;
  }
  require(member.until([&] { return process.heard("stopped"); }), "the test is gone");
  Completion sent;
  Completion received;
  peer.receive_into({&byte, 1}, Tag::make(1, 0, 0), 0, received).throw_if_error();
  peer.send({data.data(), data.size()}, Tag::make(1, 0, 0), 0, sent).throw_if_error();
  require(!member.until([&] { return sent.finished() || received.finished(); }, 1500ms),
          "finished without a peer");
  const auto begin = Clock::now();
  member.transport->abort(Status(ErrorCode::timeout, "enough"));
  require(Clock::now() - begin < kPrompt, "aborting takes too long");
  require(sent.status.code() == ErrorCode::timeout && received.status.code() == ErrorCode::timeout,
          "wrong status");
  require(member.listener.lost.empty(), "a stopped peer was reported lost");
});

TEST(UcxProcesses, ExchangeAllSizes) {
  Processes ranks("exchange", 2);
  EXPECT_EQ(ranks.wait(0, 60s), 0);
  EXPECT_EQ(ranks.wait(1, 60s), 0);
}

TEST(UcxProcesses, ExchangeAllSizesByRendezvous) {
  Processes ranks("rendezvous", 2);
  EXPECT_EQ(ranks.wait(0, 60s), 0);
  EXPECT_EQ(ranks.wait(1, 60s), 0);
}

TEST(UcxProcesses, SurvivorsNameAKilledPeer) {
  Processes ranks("killed", 3);
  ASSERT_TRUE(ranks.wait_for("ready"));
  ASSERT_TRUE(ranks.wait_for("waiting0"));
  ASSERT_TRUE(ranks.wait_for("waiting1"));
  std::this_thread::sleep_for(100ms);
  ranks.signal(2, SIGKILL);
  EXPECT_EQ(ranks.wait(2, 5s), -SIGKILL);
  const auto begin = Clock::now();
  EXPECT_EQ(ranks.wait(0, 30s), 0);
  EXPECT_EQ(ranks.wait(1, 30s), 0);
  EXPECT_LT(Clock::now() - begin, kPrompt);
}

TEST(UcxProcesses, AStoppedPeerIsNoDeadPeer) {
  Processes ranks("stopped", 2);
  ASSERT_TRUE(ranks.wait_for("ready"));
  ranks.signal(1, SIGSTOP);
  std::this_thread::sleep_for(50ms);
  ASSERT_FALSE(ranks.wait(1, 1ms) >= 0);
  ranks.announce("stopped");
  EXPECT_EQ(ranks.wait(0, 30s), 0);
}

}  // namespace
}  // namespace ucxring::testing
