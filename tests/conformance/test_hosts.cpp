// The algorithms over hosts where they are at home: shared memory inside hosts, another transport between
// them. All in one process; which ranks share memory is made up.
#include <gtest/gtest.h>

#include "tests/conformance/collective_cases.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/ranks.hpp"
#include "transport/loopback/loopback.hpp"
#include "transport/mixed/mixed.hpp"
#include "transport/shm/card.hpp"
#include "transport/shm/shm.hpp"

namespace ucxring::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kManyElements = 80'000;  // still several slices
#else
constexpr std::size_t kManyElements = 400'000;
#endif

/// What one rank sees of a store: the doors of other hosts are closed.
class StoreOfAHost final : public Store {
 public:
  StoreOfAHost(std::shared_ptr<Store> store, Layout hosts, Rank rank)
      : store_(std::move(store)), hosts_(std::move(hosts)), own_(host_of(rank.value)) {}

  void set(const std::string& key, const Bytes& value) override { store_->set(key, value); }
  Bytes get(const std::string& key, std::chrono::milliseconds timeout) override {
    Bytes value = store_->get(key, timeout);
    constexpr std::string_view kCard = "/card/";
    const auto at = key.find(kCard);
    if (at == std::string::npos || host_of(std::stoi(key.substr(at + kCard.size()))) == own_) return value;
    shm::Card card = shm::decode_card(value);
    card.why_closed = "it is on another host";
    return shm::encode(card);
  }
  bool check(const std::string& key) override { return store_->check(key); }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return store_->add(key, amount); }

 private:
  [[nodiscard]] int host_of(int rank) const { return hosts_.at(static_cast<std::size_t>(rank)); }

  std::shared_ptr<Store> store_;
  Layout hosts_;
  int own_;
};

/// Runs `body` on a thread for each rank, over shared memory in hosts and loopback between them.
void run_on_hosts(const Layout& layout, const Communicator::Options& options,
                  const std::function<void(Communicator&)>& body) {
  const int world_size = static_cast<int>(layout.size());
  const auto store = make_memory_store();
  const auto far = loopback::make_hub(world_size);
  const auto join = [&](Rank rank) {
    const auto view = std::make_shared<StoreOfAHost>(store, layout, rank);
    auto near =
        shm::join(shm::make_context(), view, rank, world_size, std::chrono::seconds(60), options.config);
    EXPECT_EQ(near.transport->hosts(), layout);
    return mixed::create(std::move(near.transport), loopback::create(far, rank));
  };
  run_on_threads(world_size, join, options, body);
}

std::vector<CollectiveCase> cases_of(const Algorithm& algorithm, int world_size) {
  const Collective collective = algorithm.collective;
  std::vector<CollectiveCase> cases;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(world_size) + 1,
                                  std::size_t{5'000}, kManyElements}) {
    for (const bool in_place : {false, true}) {
      const int root = world_size - 1;
      cases.push_back({collective, DataType::float32, ReduceOp::sum, count, root, in_place});
      if (!algorithm.uneven) continue;
      cases.push_back({collective, DataType::float32, ReduceOp::sum, count, root, in_place, true});
    }
    if (reduces(collective)) cases.push_back({collective, DataType::bfloat16, ReduceOp::average, count});
  }
  return cases;
}

class EveryAlgorithmOnHosts : public ::testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithmOnHosts, IsExactOverSharedMemory) {
  for (const Layout& layout : {Layout{0, 0, 1}, Layout{0, 1, 0, 1}, Layout{0, 0, 1, 1, 1, 2}}) {
    if (!GetParam().supports({Rank(0), static_cast<int>(layout.size()), Rank(0), layout})) continue;
    auto options = test_options();
    options.config.algorithm = only(GetParam());
    run_on_hosts(layout, options, [&](Communicator& communicator) {
      for (const auto& shape : cases_of(GetParam(), communicator.world_size())) {
        CaseBuffers buffers(shape, communicator.rank().value, communicator.world_size());
        const auto outcome = buffers.start(communicator).wait();
        ASSERT_TRUE(outcome.ok()) << shape.describe() << ": " << outcome.message();
        ASSERT_EQ(buffers.check(), "") << shape.describe() << " on hosts " << describe(layout);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithmOnHosts,
                         ::testing::ValuesIn(algorithms().begin(), algorithms().end()), [](const auto& test) {
                           return std::string(to_string(test.param.collective)) + "_" +
                                  std::string(test.param.name);
                         });

/// Rounding must not depend on who shares memory with whom.
TEST_P(EveryAlgorithmOnHosts, GivesAllRanksTheSameBits) {
  if (GetParam().collective != Collective::all_reduce) GTEST_SKIP() << "reduces nothing that all get";
  for (const Layout& layout : {Layout{0, 0, 1}, Layout{0, 0, 0, 1}, Layout{0, 0, 1, 1, 1, 2}}) {
    if (!GetParam().supports({Rank(0), static_cast<int>(layout.size()), Rank(0), layout})) continue;
    auto options = test_options();
    options.config.algorithm = only(GetParam());
    constexpr std::size_t kCount = 1001;
    std::vector<std::vector<std::uint16_t>> results(layout.size(), std::vector<std::uint16_t>(kCount));
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      run_on_hosts(layout, options, [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank().value);
        auto& data = results[rank];
        // bfloat16 between 1 and 512, of all mantissas: sums are inexact.
        for (std::size_t i = 0; i < kCount; ++i) {
          data[i] = static_cast<std::uint16_t>(0x3f80 + (i * 37 + rank * 211) % 0x480);
        }
        const Buffer buffer{std::as_writable_bytes(std::span(data)).data(), kCount * sizeof(std::uint16_t)};
        ASSERT_TRUE(communicator.all_reduce(buffer, buffer, DataType::bfloat16, op).wait().ok());
      });
      for (const auto& each : results) ASSERT_EQ(each, results.front()) << describe(layout);
    }
  }
}

/// Several operations at once, more bytes in flight than a host's shared memory has room for.
TEST(Hosts, ManyOperationsAtOnceFitIntoLittleMemory) {
  run_on_hosts({0, 0, 1, 1}, test_options(), [](Communicator& communicator) {
    constexpr int kOperations = 24;
    std::vector<CaseBuffers> buffers;
    std::vector<Operation> operations;
    for (int i = 0; i < kOperations; ++i) {
      const CollectiveCase shape{static_cast<Collective>(i % kCollectives), DataType::int32, ReduceOp::sum,
                                 static_cast<std::size_t>(i) * 10'000, i % 4};
      buffers.emplace_back(shape, communicator.rank().value, communicator.world_size());
    }
    for (CaseBuffers& each : buffers) operations.push_back(each.start(communicator));
    for (Operation& operation : operations)
      ASSERT_TRUE(operation.wait().ok()) << operation.status().message();
    for (const CaseBuffers& each : buffers) ASSERT_EQ(each.check(), "");
  });
}

}  // namespace
}  // namespace ucxring::testing
