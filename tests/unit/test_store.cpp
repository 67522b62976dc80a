#include "transport/store.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string_view>
#include <thread>

#include "transport/base/error.hpp"

namespace ucxring {
namespace {

using std::chrono::milliseconds;

Store::Bytes bytes(std::string_view text) {
  Store::Bytes result(text.size());
  std::memcpy(result.data(), text.data(), text.size());
  return result;
}

/// A directory of its own for each test, removed at its end.
class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "ucxring-store-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class StoreTest : public testing::TestWithParam<const char*> {
 protected:
  /// A second handle on the same store, as another rank has it.
  std::shared_ptr<Store> open() {
    const std::string_view kind = GetParam();
    if (kind == "memory") return memory_;
    if (kind == "file") return make_file_store(directory_.path() / "made");
    return make_prefix_store("group/7/", memory_);
  }

  Directory directory_;
  std::shared_ptr<Store> memory_ = make_memory_store();
};

/// Another container may have the same host name and the same process ids: a directory stands for its draft.
TEST(FileStore, DraftsOfOthersAreNotInTheWay) {
  const Directory directory;
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  for (int number = 0; number < 1000; ++number) {
    std::filesystem::create_directory(
        directory.path() /
        (std::string(".draft-") + host + "-" + std::to_string(::getpid()) + "-" + std::to_string(number)));
  }
  const auto store = make_file_store(directory.path());
  store->set("a", bytes("one"));
  EXPECT_EQ(store->get("a", milliseconds(0)), bytes("one"));
}

TEST_P(StoreTest, ReturnsWhatWasSet) {
  const auto writer = open();
  const auto reader = open();
  EXPECT_FALSE(reader->check("a"));
  writer->set("a", bytes("one"));
  writer->set("a/b", bytes(std::string_view("\0x", 2)));
  writer->set("empty", {});
  EXPECT_TRUE(reader->check("a"));
  EXPECT_EQ(reader->get("a", milliseconds(0)), bytes("one"));
  EXPECT_EQ(reader->get("a/b", milliseconds(0)), bytes(std::string_view("\0x", 2)));
  EXPECT_TRUE(reader->get("empty", milliseconds(0)).empty());
  writer->set("a", bytes("two"));
  EXPECT_EQ(reader->get("a", milliseconds(0)), bytes("two"));
}

TEST_P(StoreTest, GetWaitsForTheKey) {
  const auto store = open();
  std::jthread late([writer = open()] {
    std::this_thread::sleep_for(milliseconds(30));
    writer->set("late", bytes("here"));
  });
  EXPECT_EQ(store->get("late", std::chrono::seconds(20)), bytes("here"));
}

TEST_P(StoreTest, TimeoutNamesTheKey) {
  const auto start = std::chrono::steady_clock::now();
  try {
    (void)open()->get("never", milliseconds(20));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    EXPECT_NE(error.status().message().find("never\""), std::string_view::npos) << error.what();
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(20));
}

TEST_P(StoreTest, AddIsAtomicAmongThreads) {
  constexpr int kThreads = 4;
  constexpr int kAdds = 50;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([store = open()] {
        for (int k = 0; k < kAdds; ++k) store->add("count", 2);
      });
    }
  }
  EXPECT_EQ(open()->add("count", -1), 2 * kThreads * kAdds - 1);
  EXPECT_EQ(open()->get("count", milliseconds(0)), bytes("399")) << "counters read as decimal text";
  open()->set("word", bytes("x"));
  EXPECT_THROW(open()->add("word", 1), Error);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoreTest, testing::Values("memory", "file", "prefix"),
                         [](const auto& test) { return std::string(test.param); });

TEST(PrefixStore, KeepsGroupsApart) {
  const auto store = make_memory_store();
  const auto first = make_prefix_store("1/", store);
  const auto second = make_prefix_store("2/", store);
  first->set("key", bytes("a"));
  EXPECT_FALSE(second->check("key"));
  EXPECT_EQ(store->get("1/key", milliseconds(0)), bytes("a"));
}

TEST(FileStore, RefusesWhatNoDirectoryCanHold) {
  const Directory directory;
  const auto store = make_file_store(directory.path());
  EXPECT_THROW(store->set(std::string(300, 'k'), {}), Error);
  EXPECT_THROW(store->set("", {}), Error);
  std::ofstream(directory.path() / "plain").put('x');
  EXPECT_THROW((void)make_file_store(directory.path() / "plain" / "below"), Error);
}

}  // namespace
}  // namespace ucxring
