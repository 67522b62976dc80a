#include "transport/registered_buffer.hpp"

#include "transport/shm/pool.hpp"

namespace ucxring {

RegisteredBuffer RegisteredBuffer::allocate(std::size_t bytes) {
  RegisteredBuffer buffer;
  buffer.data_ = shm::Pool::process().allocate(bytes);
  buffer.bytes_ = bytes;
  return buffer;
}

void RegisteredBuffer::free(std::byte* data) noexcept {
  if (data == nullptr) return;
  // What is not in this process's pool belongs to the parent of this forked child.
  shm::Pool& pool = shm::Pool::process();
  if (pool.contains(data, 1)) pool.free(data);
}

}  // namespace ucxring
