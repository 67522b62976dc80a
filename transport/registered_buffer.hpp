// Memory that other processes of this host can read where it lies.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace ucxring {

/// Owner of registered memory. Collectives on it between processes of one host need no copy of their own;
/// everywhere else it behaves like ordinary memory. Zeroed, aligned to 4 KiB, from 2 MiB on to 2 MiB. Must
/// not go before the operations that use it are done. A forked child shares it with its parent (it is not
/// copied on write) and does not free it.
class RegisteredBuffer {
 public:
  RegisteredBuffer() noexcept = default;  ///< no memory
  /// `bytes` bytes. Throws `Error`: transport names the bytes, what is scarce and what to do; unsupported
  /// says that the system refuses memory files.
  [[nodiscard]] static RegisteredBuffer allocate(std::size_t bytes);
  RegisteredBuffer(RegisteredBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  RegisteredBuffer& operator=(RegisteredBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  RegisteredBuffer(const RegisteredBuffer&) = delete;
  RegisteredBuffer& operator=(const RegisteredBuffer&) = delete;
  ~RegisteredBuffer() { free(data_); }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The whole elements of type `T` that fit.
  template <typename T>
  [[nodiscard]] std::span<T> span() const noexcept {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }
  /// Hands the memory over: whoever takes it calls `free` with it. Then this holds none.
  [[nodiscard]] std::byte* release() noexcept {
    bytes_ = 0;
    return std::exchange(data_, nullptr);
  }
  /// Frees what `release` returned; null is allowed. Thread-safe.
  static void free(std::byte* data) noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ucxring
