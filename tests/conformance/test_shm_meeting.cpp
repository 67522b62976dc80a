// Ranks find each other's memory: as threads of one process, each with a context of its own.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

#include "transport/shm/neighbours.hpp"
#include "transport/shm/pool.hpp"

namespace ucxring::shm {
namespace {

using namespace std::chrono_literals;

/// What a rank owns while it meets others.
struct Member {
  Member() : doorbell(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), here{random_token(), doorbell.get()} {}
  Descriptor doorbell;
  Here here;
  Region outbox = Region::create(10'000, "test");
  Neighbours found;
};

Neighbours meet_others(Store& store, Member& member, int rank, int world_size, const Config& config = {}) {
  return meet(store, Rank(rank), world_size, 20s, &member.outbox, "", member.here, config);
}

/// Runs `body` for each rank on a thread of its own; rethrows the first failure.
void on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class MeetingOf : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MeetingOf, ::testing::Values(1, 2, 3, 8));

TEST_P(MeetingOf, AllThreadsOfAProcessShareMemory) {
  const int n = GetParam();
  const auto store = make_memory_store();
  std::vector<Member> members(static_cast<std::size_t>(n));
  on_threads(n, [&](int rank) {
    Member& own = members[static_cast<std::size_t>(rank)];
    own.found = meet_others(*store, own, rank, n);
  });
  for (int rank = 0; rank < n; ++rank) {
    Member& own = members[static_cast<std::size_t>(rank)];
    EXPECT_EQ(own.found.hosts, std::vector<int>(static_cast<std::size_t>(n), 0));
    EXPECT_EQ(own.found.reason, "");
    EXPECT_FALSE(own.found.avoidable);
    EXPECT_GE(own.found.cores, 1);
    EXPECT_EQ(own.found.oversubscribed, n > own.found.cores);
    ASSERT_EQ(own.found.peers.size(), members.size());
    EXPECT_FALSE(own.found.peers[static_cast<std::size_t>(rank)]);
    std::memset(own.outbox.data(), 'a' + rank, own.outbox.bytes());
  }
  for (int rank = 0; rank < n; ++rank) {
    for (int peer = 0; peer < n; ++peer) {
      if (peer == rank) continue;
      const auto& met = members[static_cast<std::size_t>(rank)].found.peers[static_cast<std::size_t>(peer)];
      ASSERT_TRUE(met);
      ASSERT_EQ(met->outbox.bytes(), 10'000U);
      EXPECT_EQ(met->outbox.data()[0], static_cast<std::byte>('a' + peer));
      EXPECT_EQ(met->outbox.data()[9'999], static_cast<std::byte>('a' + peer));
      EXPECT_EQ(met->neighbour->death_fd(), -1);
      EXPECT_FALSE(met->neighbour->dead());
      met->neighbour->ring();
    }
  }
  for (Member& member : members) {
    std::uint64_t rings = 0;
    EXPECT_EQ(read(member.doorbell.get(), &rings, sizeof(rings)), n > 1 ? 8 : -1);
    EXPECT_EQ(rings, static_cast<std::uint64_t>(n - 1));
  }
}

TEST(Meeting, GroupsShareNeighboursAndDescriptors) {
  const auto store = make_memory_store();
  std::vector<Member> members(3);
  std::vector<std::vector<Neighbours>> groups(3);
  const auto meet_once = [&](int rank) {
    Member& own = members[static_cast<std::size_t>(rank)];
    groups[static_cast<std::size_t>(rank)].push_back(meet_others(*store, own, rank, 3));
  };
  on_threads(3, meet_once);
  const std::size_t before = open_descriptors();
  for (int group = 0; group < 5; ++group) on_threads(3, meet_once);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(groups[0][0].peers[2]->neighbour, groups[0][5].peers[2]->neighbour);
  groups.clear();
  EXPECT_EQ(open_descriptors(), before - 3);  // the doorbells of three contexts; they have no lifelines
}

TEST(Meeting, ARankWithoutMemoryTakesPart) {
  const auto store = make_memory_store();
  std::vector<Member> members(3);
  on_threads(3, [&](int rank) {
    Member& own = members[static_cast<std::size_t>(rank)];
    if (rank == 1) {
      own.found = meet(*store, Rank(1), 3, 20s, nullptr, "the limit on files is 0", own.here, {});
    } else {
      own.found = meet_others(*store, own, rank, 3);
    }
    EXPECT_EQ(own.found.hosts, (std::vector<int>{0, 1, 0}));
    EXPECT_TRUE(own.found.avoidable);
  });
  EXPECT_TRUE(members[0].found.peers[2]);
  EXPECT_FALSE(members[0].found.peers[1]);
  EXPECT_EQ(members[0].found.reason, "rank 1: has none to share: the limit on files is 0");
  EXPECT_EQ(members[1].found.reason, "ranks 0, 2: this rank has none to share: the limit on files is 0");
}

TEST(Meeting, ThreadsSeeThePoolOfTheirProcess) {
  const auto store = make_memory_store();
  std::vector<Member> members(2);
  members[0].here.pool = Pool::process().fd();
  members[0].here.pool_bytes = Pool::process().bytes();
  on_threads(2, [&](int rank) {
    Member& own = members[static_cast<std::size_t>(rank)];
    own.found = meet_others(*store, own, rank, 2);
  });
  const Peer& first = *members[1].found.peers[0];
  EXPECT_EQ(first.neighbour->pool(), Pool::process().data());
  EXPECT_EQ(first.neighbour->pool_bytes(), Pool::process().bytes());
  EXPECT_FALSE(first.reads_pool);
  EXPECT_EQ(members[0].found.peers[1]->neighbour->pool(), nullptr);
  EXPECT_TRUE(members[0].found.peers[1]->reads_pool);
}

TEST(Meeting, AMissingRankIsNamed) {
  const auto store = make_memory_store();
  Member member;
  try {
    static_cast<void>(meet(*store, Rank(0), 2, 50ms, &member.outbox, "", member.here, {}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    EXPECT_NE(std::string(error.what()).find("rank 1 of 2 has not joined"), std::string::npos)
        << error.what();
  }
}

TEST(Meeting, AnotherWorldSizeIsAMismatch) {
  const auto store = make_memory_store();
  std::vector<Member> members(2);
  on_threads(2, [&](int rank) {
    try {
      static_cast<void>(meet_others(*store, members[static_cast<std::size_t>(rank)], rank, 2 + rank));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch) << error.what();
    }
  });
}

/// Connects to all sockets of ucxring that the kernel lists, and says something useless there.
std::vector<Descriptor> bother_all() {
  std::vector<Descriptor> connections;
  std::ifstream list("/proc/net/unix");
  for (std::string line; std::getline(list, line);) {
    const auto at = line.find("@ucxring-");
    if (at == std::string::npos) continue;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = line.substr(at + 1);
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) continue;
    if (connections.size() % 2 == 0) {
      EXPECT_EQ(send(socket.get(), "hello", 5, MSG_NOSIGNAL), 5);
    }
    connections.push_back(std::move(socket));
  }
  return connections;
}

TEST(Meeting, StrangersAreTurnedAway) {
  const auto store = make_memory_store();
  std::vector<Member> members(2);
  on_threads(2, [&](int rank) {
    Member& own = members[static_cast<std::size_t>(rank)];
    std::vector<Descriptor> strangers;
    if (rank == 1) {
      // Rank 0 stands at its door and waits for the card of rank 1.
      while (!store->check("shm/1/card/0")) std::this_thread::sleep_for(1ms);
      strangers = bother_all();
      EXPECT_FALSE(strangers.empty());
    }
    own.found = meet_others(*store, own, rank, 2);
    EXPECT_EQ(own.found.hosts, (std::vector<int>{0, 0}));
  });
}

TEST(Meeting, ADirectoryForSocketsIsLeftEmpty) {
  const auto store = make_memory_store();
  std::string directory = (std::filesystem::temp_directory_path() / "ucxring_test.XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  Config config;
  config.shm_dir = directory;
  std::vector<Member> members(2);
  on_threads(2, [&](int rank) {
    Member& own = members[static_cast<std::size_t>(rank)];
    own.found = meet_others(*store, own, rank, 2, config);
    EXPECT_EQ(own.found.hosts, (std::vector<int>{0, 0}));
  });
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::filesystem::remove(directory);
}

TEST(Meeting, ADirectoryThatIsMissingIsTheReason) {
  const auto store = make_memory_store();
  std::vector<Member> members(2);
  on_threads(2, [&](int rank) {
    Config config;
    if (rank == 0) config.shm_dir = "/nowhere/at/all";
    const Neighbours found = meet_others(*store, members[static_cast<std::size_t>(rank)], rank, 2, config);
    EXPECT_EQ(found.hosts, (std::vector<int>{0, 1}));
    EXPECT_NE(found.reason.find("/nowhere/at/all"), std::string::npos) << found.reason;
  });
}

}  // namespace
}  // namespace ucxring::shm
