// Registered memory: which ranges are free, what a process hands out.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "transport/base/error.hpp"
#include "transport/registered_buffer.hpp"
#include "transport/shm/free_list.hpp"
#include "transport/shm/pool.hpp"

namespace ucxring::shm {
namespace {

constexpr std::size_t kMebi = std::size_t{1} << 20;

TEST(FreeList, TakesTheSmallestThatFits) {
  FreeList list(1000);
  EXPECT_EQ(list.take(100, 1), 0U);
  EXPECT_EQ(list.take(50, 1), 100U);
  EXPECT_EQ(list.take(100, 1), 150U);
  list.give_back(100, 50);
  EXPECT_EQ(list.take(40, 1), 100U);
  EXPECT_EQ(list.free_bytes(), 1000U - 240);
}

TEST(FreeList, MergesWithBothNeighbours) {
  FreeList list(300);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(list.take(100, 1));
  EXPECT_FALSE(list.take(1, 1));
  list.give_back(0, 100);
  list.give_back(200, 100);
  EXPECT_EQ(list.ranges(), 2U);
  EXPECT_EQ(list.largest(), 100U);
  list.give_back(100, 100);
  EXPECT_EQ(list.ranges(), 1U);
  EXPECT_EQ(list.take(300, 1), 0U);
  EXPECT_EQ(list.largest(), 0U);
}

TEST(FreeList, AlignsAndKeepsWhatLiesBefore) {
  FreeList list(1024);
  EXPECT_EQ(list.take(10, 1), 0U);
  EXPECT_EQ(list.take(128, 256), 256U);
  EXPECT_EQ(list.take(246, 1), 10U);
  EXPECT_FALSE(list.take(600, 512));
  EXPECT_EQ(list.take(512, 512), 512U);
}

TEST(FreeList, EverythingComesBackAfterManyRandomCalls) {
  constexpr std::size_t kBytes = 1 << 16;
  FreeList list(kBytes);
  std::mt19937 random(7);
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  std::vector<char> owned(kBytes, 0);
  for (int call = 0; call < 20'000; ++call) {
    if (random() % 2 == 0 || taken.empty()) {
      const std::size_t bytes = 1 + random() % 2000;
      const std::size_t alignment = std::size_t{1} << (random() % 10);
      const auto offset = list.take(bytes, alignment);
      if (!offset) continue;
      ASSERT_EQ(*offset % alignment, 0U);
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(owned.at(*offset + i)++, 0);
      taken.emplace_back(*offset, bytes);
    } else {
      std::swap(taken[random() % taken.size()], taken.back());
      const auto [offset, bytes] = taken.back();
      taken.pop_back();
      for (std::size_t i = 0; i < bytes; ++i) --owned[offset + i];
      list.give_back(offset, bytes);
    }
  }
  for (const auto& [offset, bytes] : taken) list.give_back(offset, bytes);
  EXPECT_EQ(list.ranges(), 1U);
  EXPECT_EQ(list.largest(), kBytes);
}

std::size_t resident(const Pool& pool) {
  struct stat about {};
  EXPECT_EQ(fstat(pool.fd(), &about), 0);
  return static_cast<std::size_t>(about.st_blocks) * 512;
}

TEST(Pool, AlignsZeroesAndGivesPagesBack) {
  Pool pool(64 * kMebi);
  EXPECT_EQ(resident(pool), 0U);
  std::byte* const small = pool.allocate(10);
  std::byte* const large = pool.allocate(3 * kMebi);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 4096, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % (2 * kMebi), 0U);
  EXPECT_EQ(pool.used(), 4096 + 3 * kMebi);
  EXPECT_GE(resident(pool), pool.used());
  std::memset(large, 1, 3 * kMebi);
  pool.free(large);
  EXPECT_EQ(pool.used(), 4096U);
  EXPECT_LT(resident(pool), 2 * kMebi);
  std::byte* const again = pool.allocate(3 * kMebi);
  EXPECT_EQ(again, large);
  EXPECT_EQ(again[3 * kMebi - 1], std::byte{0});
  pool.free(again);
  pool.free(small);
  pool.free(nullptr);
  EXPECT_EQ(pool.used(), 0U);
}

TEST(Pool, KnowsWhatItContains) {
  Pool pool(4 * kMebi);
  std::byte* const data = pool.allocate(8192);
  EXPECT_TRUE(pool.contains(data, 8192));
  EXPECT_TRUE(pool.contains(pool.data(), 4 * kMebi));
  EXPECT_FALSE(pool.contains(pool.data(), 4 * kMebi + 1));
  EXPECT_FALSE(pool.contains(pool.data() - 1, 1));
  EXPECT_FALSE(pool.contains(pool.data() + 4 * kMebi, 0));
  EXPECT_FALSE(pool.contains(&pool, 1));
  EXPECT_EQ(pool.data() + pool.offset_of(data + 5), data + 5);
}

TEST(Pool, IsReadThroughItsDescriptor) {
  Pool pool(4 * kMebi);
  ASSERT_NE(pool.allocate(4096), nullptr);
  std::byte* const data = pool.allocate(4096);
  data[17] = std::byte{42};
  const Mapping view(pool.fd(), pool.bytes(), Mapping::Access::read);
  EXPECT_EQ(view.data()[pool.offset_of(data) + 17], std::byte{42});
  EXPECT_TRUE(is_sealed(pool.fd(), pool.bytes()));
}

std::string refused(Pool& pool, std::size_t bytes) {
  try {
    static_cast<void>(pool.allocate(bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::transport);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Pool, ExhaustionIsAnErrorAndPasses) {
  Pool pool(8 * kMebi);
  std::byte* const first = pool.allocate(4 * kMebi);
  const std::string why = refused(pool, 6 * kMebi);
  EXPECT_NE(why.find("6291456 bytes"), std::string::npos) << why;
  EXPECT_NE(why.find("4194304 of 8388608 bytes are free"), std::string::npos) << why;
  refused(pool, ~std::size_t{0});
  pool.free(first);
  pool.free(pool.allocate(8 * kMebi));
}

TEST(Pool, AFileSizeLimitIsAnErrorAndNoSignal) {
  Pool pool(16 * kMebi);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit lower{4 * kMebi, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &lower);
  const std::string why = refused(pool, 8 * kMebi);
  EXPECT_NE(why.find("ulimit -f"), std::string::npos) << why;
  EXPECT_THROW(Pool(8 * kMebi), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(pool.used(), 0U);
  pool.free(pool.allocate(8 * kMebi));
}

TEST(Pool, ThreadsNeverShareABuffer) {
  Pool pool(64 * kMebi);
  std::vector<std::thread> threads;
  for (unsigned id = 1; id <= 4; ++id) {
    threads.emplace_back([&pool, id] {
      std::mt19937 random(id);
      for (int call = 0; call < 200; ++call) {
        const std::size_t bytes = 1 + random() % 20'000;
        std::byte* const data = pool.allocate(bytes);
        std::memset(data, static_cast<int>(id), bytes);
        std::this_thread::yield();
        for (std::size_t i = 0; i < bytes; i += 500) EXPECT_EQ(data[i], static_cast<std::byte>(id));
        pool.free(data);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.used(), 0U);
}

TEST(Pool, OfTheProcessIsOneAndLarge) {
  EXPECT_EQ(&Pool::process(), &Pool::process());
  EXPECT_GE(Pool::process().bytes(), 64 * kMebi);
}

/// Exit status of `body` in a forked child.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    bool good = false;
    try {
      good = body();
    } catch (const Error& error) {
      std::cerr << error.what() << '\n';
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(Pool, AChildFreesNothingOfItsParentAndHasAPoolOfItsOwn) {
  Pool& pool = Pool::process();
  RegisteredBuffer buffer = RegisteredBuffer::allocate(8192);
  buffer.data()[8191] = std::byte{5};
  const int status = in_child([&] {
    buffer = RegisteredBuffer();
    pool.free(pool.data());
    RegisteredBuffer own = RegisteredBuffer::allocate(100);
    return &Pool::process() != &pool && !pool.contains(own.data(), 1) && own.data()[0] == std::byte{0};
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(buffer.data()[8191], std::byte{5});
}

TEST(Pool, WithoutRoomTheProcessGetsAReason) {
  const int status = in_child([] {
    const rlimit none{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &none);
    Pool& pool = Pool::process();
    const bool empty = pool.bytes() == 0 && pool.fd() == -1 && !pool.contains(&none, 1);
    return empty && refused(pool, 1).find("ulimit -f") != std::string::npos;
  });
  EXPECT_EQ(status, 0);
}

TEST(Pool, FitsIntoALimitedAddressSpace) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory fills any limit";
#endif
  const int status = in_child([] {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit few{pages * page_bytes() + 8192 * kMebi, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &few);
    Pool& pool = Pool::process();
    const bool fits = pool.bytes() > 0 && pool.bytes() <= few.rlim_cur / 16;
    pool.free(pool.allocate(1));
    return fits;
  });
  EXPECT_EQ(status, 0);
}

TEST(RegisteredBuffer, OwnsItsMemory) {
  const std::size_t before = Pool::process().used();
  RegisteredBuffer buffer = RegisteredBuffer::allocate(10'000);
  EXPECT_EQ(buffer.bytes(), 10'000U);
  EXPECT_EQ(buffer.span<double>().size(), 1250U);
  EXPECT_TRUE(Pool::process().contains(buffer.data(), buffer.bytes()));
  RegisteredBuffer moved = std::move(buffer);
  EXPECT_EQ(buffer.data(), nullptr);  // NOLINT(bugprone-use-after-move): empty, as documented
  EXPECT_EQ(Pool::process().used(), before + 12288);
  moved = RegisteredBuffer::allocate(1);
  RegisteredBuffer released = RegisteredBuffer::allocate(5000);
  RegisteredBuffer::free(released.release());
  RegisteredBuffer::free(nullptr);
  { const RegisteredBuffer gone = std::move(moved); }
  EXPECT_EQ(Pool::process().used(), before);
}

}  // namespace
}  // namespace ucxring::shm
