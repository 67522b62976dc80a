// Move-only owner of a foreign handle.
#pragma once

#include <utility>

namespace ucxring {

/// Owns a handle of type `Handle` and gives it back with `Release` (a stateless callable) exactly once.
/// `Empty` is the value that stands for "none".
template <typename Handle, auto Release, Handle Empty = Handle{}>
class UniqueHandle {
 public:
  UniqueHandle() noexcept = default;
  explicit UniqueHandle(Handle handle) noexcept : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(std::exchange(other.handle_, Empty)) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, Empty);
    }
    return *this;
  }
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  ~UniqueHandle() { reset(); }

  [[nodiscard]] Handle get() const noexcept { return handle_; }
  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != Empty; }
  [[nodiscard]] Handle release() noexcept { return std::exchange(handle_, Empty); }
  void reset() noexcept {
    if (handle_ != Empty) Release(std::exchange(handle_, Empty));
  }

 private:
  Handle handle_ = Empty;
};

}  // namespace ucxring
