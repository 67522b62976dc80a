#include "backend/store_adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "transport/base/deadline.hpp"
#include "transport/base/error.hpp"

namespace ucxring {
namespace {

/// Between two looks for a key. Short at first, since this decides how long it takes to make a group, and
/// always a fraction of what has been waited for; long in the end, so that many ranks do not keep a store
/// busy.
constexpr std::chrono::microseconds kShortestPause{50};
constexpr std::chrono::microseconds kLongestPause{100'000};
/// From pauses of this length on, about 50 ms after the first look, Ctrl-C is looked for.
constexpr std::chrono::microseconds kLookForInterrupts{10'000};

/// Runs `call`; an error of the store becomes one of ours that says what it was about.
template <typename Call>
auto guarded(const char* verb, const std::string& key, Call call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::transport, fmt::format("the c10d store failed to {} \"{}\": {}", verb, key,
                                                  error.what_without_backtrace()));
  }
}

class StoreAdapter final : public Store {
 public:
  StoreAdapter(c10::intrusive_ptr<c10d::Store> store, void (*interrupt)())
      : store_(std::move(store)), interrupt_(interrupt) {}

  void set(const std::string& key, const Bytes& value) override {
    std::vector<std::uint8_t> bytes(value.size());
    if (!value.empty()) std::memcpy(bytes.data(), value.data(), value.size());
    guarded("set", key, [&] { store_->set(key, bytes); });
  }

  /// Looks again and again, because waiting stores make warnings of every wait that ends without the key, and
  /// cannot be interrupted.
  Bytes get(const std::string& key, std::chrono::milliseconds timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    for (auto pause = kShortestPause;; pause = std::min(pause * 5 / 4, kLongestPause)) {
      const bool last = deadline.passed();
      if (check(key)) break;
      if (last) {
        throw Error(ErrorCode::timeout,
                    fmt::format("nobody set the key \"{}\" within {} ms", key, timeout.count()));
      }
      const std::chrono::microseconds left = deadline.left(std::chrono::milliseconds(100));
      std::this_thread::sleep_for(std::min(pause, left));
      if (interrupt_ != nullptr && pause >= kLookForInterrupts) interrupt_();
    }
    const auto bytes = guarded("get", key, [&] { return store_->get(key); });
    Bytes value(bytes.size());
    if (!bytes.empty()) std::memcpy(value.data(), bytes.data(), bytes.size());
    return value;
  }

  bool check(const std::string& key) override {
    return guarded("check", key, [&] { return store_->check({key}); });
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return guarded("add", key, [&] { return store_->add(key, amount); });
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  void (*interrupt_)();
};

}  // namespace

std::shared_ptr<Store> adapt_store(c10::intrusive_ptr<c10d::Store> store, void (*check)()) {
  return std::make_shared<StoreAdapter>(std::move(store), check);
}

std::string host_of(const c10::intrusive_ptr<c10d::Store>& store) {
  c10::intrusive_ptr<c10d::Store> innermost = store;
  if (auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(store.get())) {
    innermost = prefixed->getUnderlyingNonPrefixStore();
  }
  const auto* const tcp = dynamic_cast<c10d::TCPStore*>(innermost.get());
  return tcp == nullptr ? std::string() : tcp->getHost();
}

}  // namespace ucxring
