#include "backend/monitored_barrier.hpp"

#include <gtest/gtest.h>

#include <exception>

#include "transport/base/error.hpp"

namespace ucxring {
namespace {

using namespace std::chrono_literals;

/// A store that is far away: what takes less than its round trip does not succeed.
class FarStore final : public Store {
 public:
  void set(const std::string& key, const Bytes& value) override { store_->set(key, value); }
  Bytes get(const std::string& key, std::chrono::milliseconds timeout) override {
    if (timeout < 5ms) throw Error(ErrorCode::timeout, "too far");
    return store_->get(key, timeout);
  }
  bool check(const std::string& key) override { return store_->check(key); }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return store_->add(key, amount); }

 private:
  std::shared_ptr<Store> store_ = make_memory_store();
};

TEST(MonitoredBarrier, WhoCameInTimeIsNotBlamedAfterTheDeadline) {
  const auto store = std::make_shared<FarStore>();
  MonitoredBarrier first(store, 0, 4);
  MonitoredBarrier punctual(store, 2, 4);
  EXPECT_THROW(punctual.wait(-990ms, true), std::exception);  // has come; waits 10 ms for the verdict
  try {
    first.wait(50ms, true);
    FAIL() << "ranks 1 and 3 have not come";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("Ranks 1, 3 failed"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ucxring
