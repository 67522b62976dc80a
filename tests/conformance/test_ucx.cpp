#include "transport/ucx/ucx.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <csignal>
#include <filesystem>
#include <future>

#include "tests/conformance/transport_conformance.hpp"
#include "tests/support/ucx_ranks.hpp"
#include "transport/base/descriptor.hpp"

namespace ucxring::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// Two ranks on contexts of their own, polled by the test's thread.
class UcxPair : public ::testing::Test {
 protected:
  std::vector<std::shared_ptr<Context>> contexts_{ucx::make_context(Config{}, "localhost"),
                                                  ucx::make_context(Config{}, "localhost")};
  std::shared_ptr<Store> store_ = make_memory_store();

  template <typename Condition>
  bool until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < end) {
      for (auto& context : contexts_) context->progress();
    }
    return condition();
  }

  /// Lets retired groups close.
  void settle() {
    const auto end = std::chrono::steady_clock::now() + 2500ms;
    while (std::chrono::steady_clock::now() < end) {
      for (auto& context : contexts_) context->progress();
    }
  }

  void exchange(Transport& left, Transport& right, std::size_t bytes, std::uint64_t sequence) {
    const auto out = pattern(bytes, 3);
    std::vector<std::byte> in(bytes);
    Completion sent;
    Completion received;
    const Tag tag = Tag::make(sequence, 0, 0);
    right.endpoint(Rank(0)).receive_into({in.data(), bytes}, tag, 7, received).throw_if_error();
    left.endpoint(Rank(1)).send({out.data(), bytes}, tag, 7, sent).throw_if_error();
    ASSERT_TRUE(until([&] { return sent.finished() && received.finished(); }));
    EXPECT_EQ(sent.state, Completion::State::done) << sent.status.message();
    EXPECT_EQ(received.state, Completion::State::done) << received.status.message();
    EXPECT_EQ(in, out);
  }
};

Error join_failure(int rank, int world_size, const std::shared_ptr<Store>& store) {
  try {
    (void)ucx::create(ucx::make_context(Config{}), store, Rank(rank), world_size, 300ms);
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("the join succeeded");
}

TEST(UcxJoin, ATimeoutNamesTheRanksThatAreMissing) {
  const auto store = make_memory_store();
  auto other = std::async(std::launch::async, [&] { return join_failure(1, 4, store); });
  const Error error = join_failure(3, 4, store);
  EXPECT_EQ(error.code(), ErrorCode::timeout);
  EXPECT_NE(std::string(error.what()).find("ranks 0, 2 of 4 have not joined within 0.3 s"), std::string::npos)
      << error.what();
  EXPECT_EQ(other.get().code(), ErrorCode::timeout);
}

TEST(UcxJoin, RanksWithDifferentWorldSizesAreTold) {
  const auto store = make_memory_store();
  auto other = std::async(std::launch::async, [&] { return join_failure(0, 2, store); });
  const Error error = join_failure(1, 3, store);
  EXPECT_EQ(error.code(), ErrorCode::mismatch) << error.what();
  EXPECT_EQ(other.get().code(), ErrorCode::mismatch);
}

TEST(UcxJoin, ADeviceThatDoesNotExistIsNamedWithThoseThatDo) {
  Config config;
  config.net_devices = "lo,nosuch7";
  try {
    (void)ucx::make_context(config);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("nosuch7"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("lo"), std::string::npos) << error.what();
  }
}

TEST(UcxContextOfProcess, IsSharedWhileItLives) {
  const auto first = ucx::process_context(Config{}, "localhost");
  EXPECT_EQ(first, ucx::process_context(Config{}, "localhost"));
}

TEST(UcxContext, LeavesSignalsToTheProgram) {
  const auto context = ucx::make_context(Config{}, "localhost");
  for (const int number : {SIGHUP, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction action {};
    ASSERT_EQ(sigaction(number, nullptr, &action), 0);
    Dl_info owner{};
    if (dladdr(reinterpret_cast<void*>(action.sa_handler), &owner) == 0) continue;  // the default
    EXPECT_EQ(std::string(owner.dli_fname).find("libucs"), std::string::npos) << "signal " << number;
  }
}

TEST_F(UcxPair, AStoreWithOldKeysWorksAgain) {
  for (std::uint64_t round = 0; round < 3; ++round) {
    auto ranks = make_ucx_ranks(contexts_, store_);
    exchange(*ranks[0], *ranks[1], 1000, round);
  }
}

TEST_F(UcxPair, GroupsOnOneContextDoNotDisturbEachOther) {
  auto first = make_ucx_ranks(contexts_, store_);
  auto second = make_ucx_ranks(contexts_, store_);
  // Opposite order of first use on the two ranks: connections must not be crossed.
  RecordingListener listener;
  second[0]->set_listener(&listener);
  Completion idle;
  std::byte byte{};
  first[0]->endpoint(Rank(1)).receive_into({&byte, 1}, Tag::make(9, 9, 9), 0, idle).throw_if_error();
  exchange(*second[0], *second[1], 5000, 2);
  exchange(*first[0], *first[1], 5000, 3);
  first[0]->abort(Status(ErrorCode::internal, "test"));
  EXPECT_EQ(idle.status.code(), ErrorCode::internal);
  first[1]->abort(Status(ErrorCode::internal, "test"));
  exchange(*second[0], *second[1], 300000, 4);
  EXPECT_TRUE(listener.lost.empty());
}

TEST_F(UcxPair, DescriptorsAreGivenBack) {
  std::size_t before = 0;
  for (std::uint64_t round = 0; round < 50; ++round) {
    auto ranks = make_ucx_ranks(contexts_, store_);
    exchange(*ranks[0], *ranks[1], 10, round);
    ranks.clear();
    if (round == 5 || round == 49) settle();
    if (round == 5) before = open_descriptors();
  }
  EXPECT_LE(open_descriptors(), before);
}

TEST_F(UcxPair, APeerThatLeftIsNotDeadAndItsMessagesRemain) {
  auto ranks = make_ucx_ranks(contexts_, store_);
  RecordingListener listener;
  ranks[0]->set_listener(&listener);
  exchange(*ranks[0], *ranks[1], 1, 1);
  const auto out = pattern(70000, 1);
  std::vector<std::byte> in(out.size());
  std::byte never{};
  Completion sent;
  Completion waiting;
  Endpoint& peer = ranks[0]->endpoint(Rank(1));
  peer.receive_into({&never, 1}, Tag::make(2, 0, 0), 0, waiting).throw_if_error();
  ranks[1]->endpoint(Rank(0)).send({out.data(), out.size()}, Tag::make(3, 0, 0), 0, sent).throw_if_error();
  ASSERT_TRUE(until([&] { return sent.finished() && ranks[1]->flushed(); }));
  ranks[1].reset();
  ASSERT_TRUE(until([&] { return waiting.finished(); }));
  EXPECT_EQ(waiting.status.code(), ErrorCode::peer_lost);
  EXPECT_NE(waiting.status.message().find("has left the group"), std::string_view::npos);
  Completion received;
  peer.receive_into({in.data(), in.size()}, Tag::make(3, 0, 0), 0, received).throw_if_error();
  ASSERT_TRUE(until([&] { return received.finished(); }));
  EXPECT_EQ(in, out);
  for (int i = 0; i < 1000; ++i) contexts_[0]->progress();
  EXPECT_TRUE(listener.lost.empty());
  Completion late;
  EXPECT_EQ(peer.send({out.data(), 1}, Tag::make(4, 0, 0), 0, late).peer(), 1);
  EXPECT_EQ(late.state, Completion::State::idle);
}

/// Ports on which this process listens.
std::vector<sockaddr_in> listening_addresses() {
  std::vector<sockaddr_in> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    int listening = 0;
    socklen_t size = sizeof(listening);
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) continue;
    sockaddr_in address{};
    size = sizeof(address);
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    if (address.sin_family == AF_INET) found.push_back(address);
  }
  return found;
}

TEST_F(UcxPair, StrangersWhoWriteGarbageAreSurvived) {
  auto ranks = make_ucx_ranks(contexts_, store_);
  exchange(*ranks[0], *ranks[1], 100, 1);
  const auto addresses = listening_addresses();
  ASSERT_FALSE(addresses.empty());
  const auto garbage = pattern(10000, 5);
  std::vector<Descriptor> strangers;
  for (const auto& address : addresses) {
    strangers.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(strangers.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    ASSERT_GT(::send(strangers.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  }
  for (std::uint64_t i = 2; i < 50; ++i) exchange(*ranks[0], *ranks[1], 1000 * i, i);
}

}  // namespace
}  // namespace ucxring::testing
