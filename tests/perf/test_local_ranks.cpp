#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "bench/perf/local_ranks.hpp"

namespace ucxring::perf {
namespace {

// GoogleTest runs death tests first, while this process has no other threads and may fork.

TEST(LocalRanksDeathTest, WrongElementsOnOneRankAreTheResult) {
  EXPECT_EQ(run_local_ranks(3, [](int) { return kRight; }), kRight);
  EXPECT_EQ(run_local_ranks(3, [](int rank) { return rank == 1 ? kWrong : kRight; }), kWrong);
}

TEST(LocalRanksDeathTest, AFailureEndsRanksThatWait) {
  const auto body = [](int rank) {
    while (rank != 2) pause();
    return kRankFailed;
  };
  EXPECT_EQ(run_local_ranks(3, body), kRankFailed);
}

TEST(LocalRanksDeathTest, RanksArePinnedRoundRobin) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  const auto body = [&](int rank) {
    bind_to_core(rank);
    const int wanted = cores[static_cast<std::size_t>(rank) % cores.size()];
    return allowed_cores() == 1 && sched_getcpu() == wanted ? kRight : kWrong;
  };
  EXPECT_EQ(run_local_ranks(static_cast<int>(cores.size()) + 1, body), kRight);
}

TEST(LocalRanks, TheFolderGoesAway) {
  std::filesystem::path path;
  {
    const TemporaryFolder folder;
    path = folder.path();
    std::ofstream(path / "file") << "text";
    EXPECT_TRUE(std::filesystem::exists(path / "file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace ucxring::perf
