#include "backend/registered_tensor.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>

#include <exception>

#include "backend/errors.hpp"
#include "transport/registered_buffer.hpp"

namespace ucxring {
namespace {

void free_storage(void* memory) { RegisteredBuffer::free(static_cast<std::byte*>(memory)); }

class RegisteredAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::Device(c10::kCPU)};
    try {
      void* const memory = RegisteredBuffer::allocate(bytes).release();
      return {memory, memory, &free_storage, c10::Device(c10::kCPU)};
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported)
        std::rethrow_exception(to_torch_exception(error.status(), ""));
      throw_out_of_memory(std::string(error.status().message()));
    }
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &free_storage; }
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

}  // namespace

c10::Allocator& registered_allocator() {
  static auto* const allocator = new RegisteredAllocator;  // storages may outlive static objects
  return *allocator;
}

at::Tensor empty_registered(at::IntArrayRef sizes, at::ScalarType dtype) {
  const c10::DispatchKeySet cpu(c10::DispatchKey::CPU);
  try {
    return at::detail::empty_generic(sizes, &registered_allocator(), cpu, dtype, std::nullopt);
  } catch (const c10::NotImplementedError& error) {
    TORCH_WARN_ONCE(
        "ucxring.empty: ordinary memory instead of registered memory, which costs one more copy inside a "
        "host: ",
        error.what_without_backtrace());
    return at::empty(sizes, at::TensorOptions(dtype));
  }
}

}  // namespace ucxring
