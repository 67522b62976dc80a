// All collectives between processes that share memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "tests/multiprocess/shm_member.hpp"
#include "transport/registered_buffer.hpp"

namespace ucxring::testing {
namespace {

using namespace std::chrono_literals;

/// Numbers in ordinary or in registered memory.
class Memory {
 public:
  Memory(std::size_t count, bool registered) {
    if (registered) {
      registered_ = RegisteredBuffer::allocate(count * sizeof(std::int32_t));
      numbers_ = registered_.span<std::int32_t>().first(count);
    } else {
      ordinary_.resize(count);
      numbers_ = ordinary_;
    }
  }
  [[nodiscard]] Numbers numbers() const { return numbers_; }
  [[nodiscard]] Buffer bytes() const { return bytes_of(numbers_); }

 private:
  RegisteredBuffer registered_;
  std::vector<std::int32_t> ordinary_;
  Numbers numbers_;
};

std::int32_t element(int rank, std::size_t index) {
  return static_cast<std::int32_t>(index % 1009) * 8 + rank;
}

std::int32_t sum(int world_size, std::size_t index) {
  std::int32_t total = 0;
  for (int rank = 0; rank < world_size; ++rank) total += element(rank, index);
  return total;
}

using Expected = std::function<std::int32_t(std::size_t index)>;

void fill(Numbers numbers, const Expected& value) {
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = value(i);
}

/// Waits for `operation` and compares its result.
void expect(const char* name, const Operation& operation, Numbers numbers, const Expected& value) {
  operation.wait().throw_if_error();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == value(i)) continue;
    throw std::runtime_error(fmt::format("{} of {} numbers: [{}] is {} and not {}", name, numbers.size(), i,
                                         numbers[i], value(i)));
  }
}

struct Case {
  std::size_t count;
  bool registered;
  Call call;
};

/// All ranks; of long vectors, which take time, only the last one.
std::vector<int> roots_of(const Case& each, int world_size) {
  constexpr std::size_t kLong = 100'000;
  if (each.count > kLong) return {world_size - 1};
  std::vector<int> roots(static_cast<std::size_t>(world_size));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

void run_reductions(Communicator& group, const Case& each) {
  const int n = group.world_size();
  const int self = group.rank().value;
  const auto own = [&](std::size_t i) { return element(self, i); };
  const auto total = [&](std::size_t i) { return sum(n, i); };
  const CallOptions call = options_of(each.call);
  const Memory in(each.count * static_cast<std::size_t>(n), each.registered);
  const Memory out(each.count, each.registered);
  const Numbers part = in.numbers().first(each.count);
  fill(in.numbers(), own);
  const auto reduced = group.all_reduce(bytes_of(part), out.bytes(), DataType::int32, ReduceOp::sum, call);
  expect("all_reduce", reduced, out.numbers(), total);
  const auto in_place =
      group.all_reduce(bytes_of(part), bytes_of(part), DataType::int32, ReduceOp::sum, call);
  expect("all_reduce in place", in_place, part, total);
  fill(in.numbers(), own);
  for (const int root : roots_of(each, n)) {
    fill(out.numbers(), own);
    const auto sent =
        group.reduce(bytes_of(part), out.bytes(), DataType::int32, ReduceOp::sum, Rank(root), call);
    expect("reduce", sent, out.numbers(), root == self ? Expected(total) : Expected(own));
  }
  const auto scattered = group.reduce_scatter(in.bytes(), out.bytes(), DataType::int32, ReduceOp::sum, call);
  expect("reduce_scatter", scattered, out.numbers(),
         [&](std::size_t i) { return sum(n, i + each.count * static_cast<std::size_t>(self)); });
}

/// Rank r has for rank t as many numbers as this; some have none.
std::size_t part_of(const Case& each, int from, int to) {
  return (from + 2 * to) % 3 == 1 ? 0 : each.count + static_cast<std::size_t>(from);
}

/// What rank r has for rank t begins with a number of its own.
void run_exchanges(Communicator& group, const Case& each) {
  const int n = group.world_size();
  const int self = group.rank().value;
  const CallOptions call = options_of(each.call);
  const auto first = [](int from, int to) { return from * 1000 + to; };
  std::vector<std::size_t> sent;
  std::vector<std::size_t> received;
  for (int other = 0; other < n; ++other) {
    sent.push_back(part_of(each, self, other));
    received.push_back(part_of(each, other, self));
  }
  const Memory in(std::accumulate(sent.begin(), sent.end(), std::size_t{0}), each.registered);
  const Memory out(std::accumulate(received.begin(), received.end(), std::size_t{0}), each.registered);
  for (std::size_t at = 0, other = 0; other < sent.size(); at += sent[other++]) {
    fill(in.numbers().subspan(at, sent[other]),
         [&](std::size_t i) { return element(first(self, static_cast<int>(other)), i); });
  }
  const auto exchanged = group.all_to_all(in.bytes(), out.bytes(), DataType::int32, sent, received, call);
  for (std::size_t at = 0, other = 0; other < received.size(); at += received[other++]) {
    expect("uneven all_to_all", exchanged, out.numbers().subspan(at, received[other]),
           [&](std::size_t i) { return element(first(static_cast<int>(other), self), i); });
  }
}

void run_rooted_copies(Communicator& group, const Case& each, int root) {
  const int n = group.world_size();
  const int self = group.rank().value;
  const CallOptions call = options_of(each.call);
  const Memory own(each.count, each.registered);
  const Memory all(each.count * static_cast<std::size_t>(n), each.registered);
  const auto of_all = [&](std::size_t i) {
    return element(static_cast<int>(i / each.count), i % each.count);
  };
  fill(own.numbers(), [&](std::size_t i) { return element(self, i); });
  const auto gathered = group.gather(own.bytes(), all.bytes(), DataType::int32, Rank(root), call);
  gathered.wait().throw_if_error();
  if (self == root) expect("gather", gathered, all.numbers(), of_all);
  fill(own.numbers(), [](std::size_t) { return -1; });
  const auto scattered = group.scatter(all.bytes(), own.bytes(), DataType::int32, Rank(root), call);
  expect("scatter", scattered, own.numbers(), [&](std::size_t i) { return element(self, i); });
}

void run_copies(Communicator& group, const Case& each) {
  const int n = group.world_size();
  const int self = group.rank().value;
  const CallOptions call = options_of(each.call);
  const Memory own(each.count, each.registered);
  const Memory all(each.count * static_cast<std::size_t>(n), each.registered);
  fill(own.numbers(), [&](std::size_t i) { return element(self, i); });
  const auto gathered = group.all_gather(own.bytes(), all.bytes(), DataType::int32, call);
  expect("all_gather", gathered, all.numbers(),
         [&](std::size_t i) { return element(static_cast<int>(i / each.count), i % each.count); });
  for (const int root : roots_of(each, n)) {
    fill(own.numbers(), [&](std::size_t i) { return element(self, i); });
    const auto sent = group.broadcast(own.bytes(), DataType::int32, Rank(root), call);
    expect("broadcast", sent, own.numbers(), [&](std::size_t i) { return element(root, i); });
  }
  for (const int root : roots_of(each, n)) run_rooted_copies(group, each, root);
  group.barrier(call).wait().throw_if_error();
}

// More than an arena and than a window in any build; the sanitizers are too slow for the last one.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::array<std::size_t, 5> kCounts{1, 5, 2048, 65'539, (1U << 18U) + 3};
#else
constexpr std::array<std::size_t, 6> kCounts{1, 5, 2048, 65'539, 1U << 20U, (5U << 20U) + 3};
#endif

const RegisterRole kCollectives("shm_collectives", [](const ProcessRank& process) {
  auto options = shm_options();
  options.config.probe = true;
  const auto group = join(process, options);
  require(group->transport_name() == "shm", "another transport");
  for (const std::size_t count : kCounts) {
    for (const bool registered : {false, true}) {
      const Call call = registered == (count % 2 == 0) ? Call::immediate : Call::asynchronous;
      run_reductions(*group, {count, registered, call});
      run_copies(*group, {count, registered, call});
      run_exchanges(*group, {count, registered, call});
    }
  }
});

/// More operations than may be in flight, of all sizes, some by immediate calls.
const RegisterRole kMany("shm_many", [](const ProcessRank& process) {
  const auto group = join(process, shm_options());
  constexpr std::size_t kOperations = 100;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<std::int32_t>> data;
    std::vector<Operation> operations;
    for (std::size_t i = 0; i < kOperations; ++i) {
      data.emplace_back(i % 7 == 0 ? 100'000 : 1 + i, process.rank.value + 1);
      operations.push_back(start_sum(*group, data.back(), i % 5 == 0 ? Call::immediate : Call::asynchronous));
    }
    const int total = process.world_size * (process.world_size + 1) / 2;
    for (std::size_t i = 0; i < kOperations; ++i) {
      operations[i].wait().throw_if_error();
      require(std::all_of(data[i].begin(), data[i].end(), [&](auto each) { return each == total; }),
              "a wrong sum");
    }
  }
});

const RegisterRole kCrowd("shm_crowd", [](const ProcessRank& process) {
  const auto group = join(process, shm_options());
  for (int i = 0; i < 200; ++i) check_sum(*group, i % 2 == 0 ? 2 : 500);
});

class ShmGroupsOf : public ::testing::TestWithParam<int> {
 protected:
  void expect_success(const std::string& role, std::chrono::seconds limit) {
    Processes ranks(role, GetParam());
    EXPECT_EQ(ends(ranks, GetParam(), limit), std::vector<int>(static_cast<std::size_t>(GetParam()), 0));
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, ShmGroupsOf, ::testing::Values(2, 4));

TEST_P(ShmGroupsOf, RunAllCollectives) { expect_success("shm_collectives", 120s); }
TEST_P(ShmGroupsOf, HaveManyOperationsInFlight) { expect_success("shm_many", 60s); }

TEST(ShmGroups, MoreThanCoresFinish) {
  Processes ranks("shm_crowd", 8);
  EXPECT_EQ(ends(ranks, 8, 120s), std::vector<int>(8, 0));
}

}  // namespace
}  // namespace ucxring::testing
