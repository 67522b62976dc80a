// What shared memory is made of: regions, messages of the meeting, cores and limits.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "transport/base/error.hpp"
#include "transport/shm/card.hpp"
#include "transport/shm/cgroup.hpp"
#include "transport/shm/cliques.hpp"
#include "transport/shm/cores.hpp"
#include "transport/shm/hello.hpp"
#include "transport/shm/memory_left.hpp"
#include "transport/shm/region.hpp"

namespace ucxring::shm {
namespace {

namespace fs = std::filesystem;

/// The message of the `Error` of `code` that `call` throws.
template <typename Call>
std::string refused(ErrorCode code, Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return std::string(error.status().message());
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// Lowers a limit of this process for a while.
class Limit {
 public:
  Limit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    getrlimit(resource, &before_);
    const rlimit lower{value, before_.rlim_max};
    setrlimit(resource, &lower);
  }
  ~Limit() { setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

TEST(Region, IsWrittenHereAndReadThere) {
  const Region region = Region::create(5000, "test");
  EXPECT_EQ(region.bytes(), 5000U);
  EXPECT_EQ(region.data()[4999], std::byte{0});
  const RegionView view(region.fd(), region.bytes());
  EXPECT_EQ(view.token(), region.token());
  region.data()[4999] = std::byte{7};
  EXPECT_EQ(view.data()[4999], std::byte{7});
  EXPECT_NE(static_cast<const void*>(view.data()), static_cast<const void*>(region.data()));
}

TEST(Region, OutlivesItsOwnerInAViewAndMoves) {
  auto region = std::make_unique<Region>(Region::create(100, "test"));
  RegionView first(region->fd(), 100);
  region->data()[0] = std::byte{9};
  const RegionView view = std::move(first);
  region.reset();
  EXPECT_EQ(view.data()[0], std::byte{9});
}

TEST(Region, IsReallyAllocated) {
  const Region region = Region::create(std::size_t{1} << 20, "test");
  struct stat about {};
  ASSERT_EQ(fstat(region.fd(), &about), 0);
  EXPECT_GE(about.st_blocks * 512, 1 << 20);
}

TEST(Region, NobodyElseCanWriteOrShrinkIt) {
  const Region region = Region::create(4096, "test");
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd(), 0), MAP_FAILED);
  EXPECT_NE(ftruncate(region.fd(), 0), 0);
}

TEST(Region, AViewOfSomethingElseIsRefused) {
  const Region region = Region::create(4096, "test");
  const Descriptor growing = make_memory_file("test");
  ASSERT_EQ(ftruncate(growing.get(), 1 << 20), 0);
  for (const int descriptor : {region.fd(), growing.get(), -1}) {
    refused(ErrorCode::transport, [&] { RegionView(descriptor, 100'000); });
  }
  refused(ErrorCode::transport, [&] { RegionView(region.fd(), ~std::size_t{0}); });
}

TEST(Region, ShortageIsAnErrorThatNamesIt) {
  const Limit limit(RLIMIT_FSIZE, 1 << 20);
  const std::string why =
      refused(ErrorCode::transport, [] { static_cast<void>(Region::create(std::size_t{2} << 20, "test")); });
  EXPECT_NE(why.find("ulimit -f"), std::string::npos) << why;
  EXPECT_NE(why.find("2.0 MiB"), std::string::npos) << why;
  EXPECT_EQ(Region::create(1000, "test").bytes(), 1000U);
}

TEST(Region, MoreThanTheMachineHasIsAnError) {
  const std::string why =
      refused(ErrorCode::transport, [] { static_cast<void>(Region::create(2 * physical_memory(), "test")); });
  EXPECT_NE(why.find("leaves"), std::string::npos) << why;
  refused(ErrorCode::transport, [] { static_cast<void>(Region::create(~std::size_t{0} / 2, "test")); });
}

Hello some_hello() {
  Hello hello;
  hello.rank = Rank(3);
  hello.secret = random_token();
  hello.context = random_token();
  hello.process = random_token();
  hello.region = random_token();
  hello.outbox_bytes = 12345;
  hello.pool_bytes = 1 << 21;
  return hello;
}

TEST(Hello, SurvivesItsTravel) {
  Hello hello = some_hello();
  EXPECT_EQ(decode_hello(encode(hello), 4), hello);
  hello.pool_bytes = 0;
  EXPECT_EQ(decode_hello(encode(hello), 3), hello);
}

TEST(Hello, MalformedOnesAreRefused) {
  const auto good = encode(some_hello());
  EXPECT_LE(good.size(), kHelloBytes);
  for (const std::size_t descriptors : {0U, 3U, 5U}) EXPECT_FALSE(decode_hello(good, descriptors));
  EXPECT_FALSE(decode_hello(std::span(good).first(good.size() - 1), 4));
  EXPECT_FALSE(decode_hello({}, 0));
  auto other_magic = good;
  other_magic[0] ^= std::byte{1};
  EXPECT_FALSE(decode_hello(other_magic, 4));
  for (const auto change : {+[](Hello& h) { h.rank = Rank(-1); }, +[](Hello& h) { h.outbox_bytes = 0; },
                            +[](Hello& h) { h.outbox_bytes = ~std::uint64_t{0}; },
                            +[](Hello& h) { h.pool_bytes = ~std::uint64_t{0}; }}) {
    Hello hello = some_hello();
    change(hello);
    EXPECT_FALSE(decode_hello(encode(hello), 4));
  }
}

TEST(Card, SurvivesItsTravel) {
  Card card{8, random_token(), random_token(), random_token(), true, {{5, 6}, 2.5, 77}, ""};
  EXPECT_EQ(decode_card(encode(card)), card);
  card.cpus = {};
  card.why_closed = "no memory left";
  EXPECT_EQ(decode_card(encode(card)), card);
}

TEST(Card, MalformedOnesAreRefused) {
  const Card card{8, random_token(), random_token(), random_token(), true, {{5, 6}, 0, 0}, ""};
  auto bytes = encode(card);
  refused(ErrorCode::mismatch,
          [&] { static_cast<void>(decode_card(std::span(bytes).first(bytes.size() - 1))); });
  refused(ErrorCode::mismatch, [&] { static_cast<void>(decode_card({})); });
  bytes[0] ^= std::byte{4};
  const std::string why = refused(ErrorCode::mismatch, [&] { static_cast<void>(decode_card(bytes)); });
  EXPECT_NE(why.find("version"), std::string::npos);
}

TEST(Contacts, SurviveTheirTravelAndHoldOnlyRanks) {
  const Contacts contacts{{Rank(0), 1}, {Rank(5), 0}};
  EXPECT_EQ(decode_contacts(encode(contacts), 6), contacts);
  EXPECT_EQ(find(contacts, Rank(5)), &contacts[1]);
  EXPECT_EQ(find(contacts, Rank(1)), nullptr);
  EXPECT_TRUE(decode_contacts({}, 1).empty());
  refused(ErrorCode::mismatch, [&] { static_cast<void>(decode_contacts(encode(contacts), 5)); });
  const auto bytes = encode(contacts);
  refused(ErrorCode::mismatch, [&] { static_cast<void>(decode_contacts(std::span(bytes).first(7), 6)); });
}

Contacts contacts_with(std::initializer_list<int> ranks) {
  Contacts contacts;
  for (const int rank : ranks) contacts.push_back({Rank(rank)});
  return contacts;
}

TEST(FindHosts, RanksThatAllShareFormAHost) {
  // 0, 2 and 3 on one host, 1 and 4 on another.
  EXPECT_EQ(find_hosts({contacts_with({2, 3}), contacts_with({4}), contacts_with({0, 3}),
                        contacts_with({0, 2}), contacts_with({1})}),
            (std::vector<int>{0, 1, 0, 0, 1}));
  EXPECT_EQ(find_hosts({{}, {}}), (std::vector<int>{0, 1}));
  EXPECT_EQ(find_hosts({{}}), std::vector<int>{0});
}

TEST(FindHosts, OneSidedAndPartialSharingIsNone) {
  EXPECT_EQ(find_hosts({contacts_with({1}), {}}), (std::vector<int>{0, 1}));
  // 0–1 and 1–2 share, 0–2 do not.
  EXPECT_EQ(find_hosts({contacts_with({1}), contacts_with({0, 2}), contacts_with({1})}),
            (std::vector<int>{0, 0, 1}));
}

TEST(CpuBudget, CountsTheUnionOfMasks) {
  const std::vector<CpuShare> apart{{{0b0011}, 0, 0}, {{0b1100}, 0, 0}};
  EXPECT_EQ(cpu_budget(apart).cores, 4);
  EXPECT_FALSE(cpu_budget(apart).oversubscribed);
  const std::vector<CpuShare> wide{{{0, 1}, 0, 0}, {{1}, 0, 0}};
  EXPECT_EQ(cpu_budget(wide).cores, 2);
}

TEST(CpuBudget, SeesRanksThatHaveToShareCores) {
  const CpuShare both{{0b11}, 0, 0};
  EXPECT_FALSE(cpu_budget(std::vector{both, both}).oversubscribed);
  EXPECT_TRUE(cpu_budget(std::vector{both, both, both}).oversubscribed);
  const CpuShare first{{0b01}, 0, 0};
  const CpuShare many{{0xff00}, 0, 0};
  EXPECT_TRUE(cpu_budget(std::vector{first, first, many}).oversubscribed);
  EXPECT_TRUE(cpu_budget(std::vector{first, both, both, many}).oversubscribed);
  EXPECT_FALSE(cpu_budget(std::vector{first, both, many}).oversubscribed);
}

TEST(CpuBudget, QuotasLimit) {
  const CpuShare quota{{0xff}, 2.5, 1};
  EXPECT_EQ(cpu_budget(std::vector{quota, quota}).cores, 2);
  EXPECT_FALSE(cpu_budget(std::vector{quota, quota}).oversubscribed);
  EXPECT_TRUE(cpu_budget(std::vector{quota, quota, quota}).oversubscribed);
  const CpuShare other{{0xff}, 1.5, 2};
  EXPECT_EQ(cpu_budget(std::vector{quota, other}).cores, 4);
  const CpuShare unlimited{{0xff}, 0, 0};
  EXPECT_EQ(cpu_budget(std::vector{quota, unlimited}).cores, 8);
  const CpuShare tiny{{0xff}, 0.5, 3};
  EXPECT_EQ(cpu_budget(std::vector{tiny}).cores, 1);
}

TEST(CpuShare, OfThisThread) {
  const CpuShare own = own_cpu_share();
  ASSERT_FALSE(own.mask.empty());
  EXPECT_NE(own.mask.back(), 0U);
}

/// A made-up root folder with the files of /proc and /sys that the functions read.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (fs::temp_directory_path() / "ucxring_test.XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~FakeRoot() { fs::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST(Cgroups, TheTightestQuotaOfVersion2Counts) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "0::/a/b\n");
  root.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  root.write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  const CpuShare share = own_cpu_share(root.path());
  EXPECT_DOUBLE_EQ(share.quota, 1.5);
  EXPECT_NE(share.quota_id, 0U);
}

TEST(Cgroups, QuotasOfVersion1Count) {
  const FakeRoot root;
  // As in a container: the path is the host's, the mount is the container's own.
  root.write("proc/self/cgroup", "7:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n0::/\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(own_cpu_share(root.path()).quota, 0.5);
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_DOUBLE_EQ(own_cpu_share(root.path()).quota, 0);
}

TEST(Cgroups, WithoutAnyThereIsNoLimit) {
  const FakeRoot root;
  EXPECT_TRUE(cgroup_folders("cpu", root.path()).empty());
  EXPECT_DOUBLE_EQ(own_cpu_share(root.path()).quota, 0);
  EXPECT_EQ(memory_left(root.path()).bytes, ~std::size_t{0});
}

TEST(MemoryLeft, IsTheLeastOfMachineAndGroups) {
  const FakeRoot root;
  root.write("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:  8000 kB\n");
  EXPECT_EQ(memory_left(root.path()).bytes, 8000U * 1024);
  EXPECT_EQ(memory_left(root.path()).bound, "memory of this machine");
  root.write("proc/self/cgroup", "0::/a\n");
  root.write("sys/fs/cgroup/a/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/a/memory.current", "700000\n");
  root.write("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 200000\n");
  EXPECT_EQ(memory_left(root.path()).bytes, 500'000U);
  EXPECT_NE(memory_left(root.path()).bound.find("control group"), std::string::npos);
}

TEST(MemoryLeft, KnowsVersion1) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "7:memory:/\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1500\n");
  root.write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 100\n");
  EXPECT_EQ(memory_left(root.path()).bytes, 0U);
}

}  // namespace
}  // namespace ucxring::shm
