#include "transport/ucx/buffer_pool.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace ucxring::ucx {
namespace {

int size_class(std::size_t size, int smallest) {
  return std::max(smallest, static_cast<int>(std::bit_width(size == 0 ? 0 : size - 1)));
}

}  // namespace

PooledBuffer& PooledBuffer::operator=(PooledBuffer&& other) noexcept {
  reset();
  pool_ = other.pool_;
  bytes_ = std::move(other.bytes_);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void PooledBuffer::reset() noexcept {
  if (bytes_) pool_->give_back(std::move(bytes_), size_);
  size_ = 0;
}

PooledBuffer BufferPool::take(std::size_t size) {
  const int bits = size_class(size, kSmallestBits);
  if (bits >= 48) throw std::bad_alloc();
  auto& list = free_[static_cast<std::size_t>(bits)];
  const std::size_t capacity = std::size_t{1} << bits;
  if (list.empty()) return {*this, std::unique_ptr<std::byte[]>(new std::byte[capacity]), size};
  std::unique_ptr<std::byte[]> bytes = std::move(list.back());
  list.pop_back();
  kept_bytes_ -= capacity;
  return {*this, std::move(bytes), size};
}

void BufferPool::give_back(std::unique_ptr<std::byte[]> bytes, std::size_t size) noexcept {
  const int bits = size_class(size, kSmallestBits);
  const std::size_t capacity = std::size_t{1} << bits;
  if (kept_bytes_ + capacity > kMaxKeptBytes) return;
  try {
    free_[static_cast<std::size_t>(bits)].push_back(std::move(bytes));
    kept_bytes_ += capacity;
  } catch (const std::bad_alloc&) {
    // Not kept then; the buffer is freed.
  }
}

}  // namespace ucxring::ucx
