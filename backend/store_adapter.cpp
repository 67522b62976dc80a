#include "backend/store_adapter.hpp"

#include <fmt/format.h>

#include <cstring>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "transport/base/deadline.hpp"
#include "transport/base/error.hpp"

namespace ucxring {
namespace {

constexpr std::chrono::milliseconds kBetweenChecks{400};

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

  Bytes get(const std::string& key, std::chrono::milliseconds timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    while (!wait_for(key, deadline.left(kBetweenChecks))) {
      if (interrupt_ != nullptr) interrupt_();
      if (deadline.passed()) {
        throw Error(ErrorCode::timeout,
                    fmt::format("nobody set the key \"{}\" within {} ms", key, timeout.count()));
      }
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
  /// Whether `key` was set within `limit`. Stores differ in how they say that time is over, so the clock
  /// decides.
  bool wait_for(const std::string& key, std::chrono::milliseconds limit) {
    const auto slice = std::max(limit, std::chrono::milliseconds(1));
    const Deadline end = Deadline::after(slice - std::chrono::milliseconds(1));
    try {
      store_->wait({key}, slice);
      return true;
    } catch (const c10::Error& error) {
      if (end.passed()) return false;
      throw Error(ErrorCode::transport, fmt::format("the c10d store failed to wait for \"{}\": {}", key,
                                                    error.what_without_backtrace()));
    }
  }

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
