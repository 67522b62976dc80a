// A key-value store through which the ranks of a group find each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ucxring {

/// Shared by all ranks of a group. Thread-safe. Values are bytes; keys are printable text.
class Store {
 public:
  using Bytes = std::vector<std::byte>;
  virtual ~Store() = default;

  virtual void set(const std::string& key, const Bytes& value) = 0;
  /// The value of `key`, waiting until it is set. Throws `Error` (timeout) naming the key.
  [[nodiscard]] virtual Bytes get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  /// Whether `key` is set now.
  [[nodiscard]] virtual bool check(const std::string& key) = 0;
  /// Atomically adds `amount` to the counter `key` (0 when absent) and returns the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
};

/// A store in the memory of one process, for ranks that are threads.
[[nodiscard]] std::shared_ptr<Store> make_memory_store();

/// A store in an existing or new directory that all ranks see, for programs without torch. One file a key.
[[nodiscard]] std::shared_ptr<Store> make_file_store(const std::filesystem::path& directory);

/// A view of `store` whose keys all begin with `prefix`.
[[nodiscard]] std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace ucxring
