#include "transport/store.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "transport/store_text.hpp"

namespace ucxring {
namespace {

class MemoryStore final : public Store {
 public:
  void set(const std::string& key, const Bytes& value) override {
    {
      const std::lock_guard lock(mutex_);
      values_[key] = value;
    }
    changed_.notify_all();
  }

  Bytes get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); }))
      throw_key_timeout(key, timeout);
    return values_.at(key);
  }

  bool check(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.contains(key);
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    std::int64_t sum = amount;
    {
      const std::lock_guard lock(mutex_);
      Bytes& value = values_[key];
      sum += read_counter(key, value);
      value = write_counter(sum);
    }
    changed_.notify_all();
    return sum;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Bytes> values_;
};

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix)), store_(std::move(store)) {}

  void set(const std::string& key, const Bytes& value) override { store_->set(prefix_ + key, value); }
  Bytes get(const std::string& key, std::chrono::milliseconds timeout) override {
    return store_->get(prefix_ + key, timeout);
  }
  bool check(const std::string& key) override { return store_->check(prefix_ + key); }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return store_->add(prefix_ + key, amount);
  }

 private:
  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() { return std::make_shared<MemoryStore>(); }

std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(store));
}

}  // namespace ucxring
