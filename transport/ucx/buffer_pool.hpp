// Reused byte buffers for messages that must be kept.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace ucxring::ucx {

class BufferPool;

/// Bytes borrowed from a `BufferPool`, given back on destruction. The pool must outlive it.
class PooledBuffer {
 public:
  PooledBuffer() noexcept = default;
  PooledBuffer(BufferPool& pool, std::unique_ptr<std::byte[]> bytes, std::size_t size) noexcept
      : pool_(&pool), bytes_(std::move(bytes)), size_(size) {}
  PooledBuffer(PooledBuffer&&) noexcept = default;
  PooledBuffer& operator=(PooledBuffer&& other) noexcept;
  PooledBuffer(const PooledBuffer&) = delete;
  PooledBuffer& operator=(const PooledBuffer&) = delete;
  ~PooledBuffer() { reset(); }

  [[nodiscard]] std::span<std::byte> span() const noexcept { return {bytes_.get(), size_}; }
  void reset() noexcept;

 private:
  BufferPool* pool_ = nullptr;
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
};

/// Buffers in size classes of powers of two. Keeps at most `kMaxKeptBytes` for reuse. Not thread-safe.
class BufferPool {
 public:
  static constexpr std::size_t kMaxKeptBytes = std::size_t{64} << 20;

  /// Uninitialised bytes. Throws `std::bad_alloc`.
  [[nodiscard]] PooledBuffer take(std::size_t size);

 private:
  friend class PooledBuffer;
  static constexpr int kSmallestBits = 8;
  void give_back(std::unique_ptr<std::byte[]> bytes, std::size_t size) noexcept;

  std::array<std::vector<std::unique_ptr<std::byte[]>>, 64> free_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace ucxring::ucx
