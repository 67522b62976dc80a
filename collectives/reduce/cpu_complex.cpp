#include <cstring>

#include "collectives/reduce/cpu_kernels.hpp"

namespace ucxring::cpu {
namespace {

template <typename T>
struct Complex {
  T real, imaginary;
};

template <typename T>
void multiply(void* target, const void* left, const void* right, std::size_t count) {
  using Element = Complex<T>;
  auto* out = static_cast<std::byte*>(target);
  const auto* a = static_cast<const std::byte*>(left);
  const auto* b = static_cast<const std::byte*>(right);
  for (std::size_t i = 0; i < count * sizeof(Element); i += sizeof(Element)) {
    Element x, y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    const Element product{x.real * y.real - x.imaginary * y.imaginary,
                          x.real * y.imaginary + x.imaginary * y.real};
    std::memcpy(out + i, &product, sizeof product);
  }
}

}  // namespace

void multiply_complex64(void* target, const void* left, const void* right, std::size_t count) {
  multiply<float>(target, left, right, count);
}

void multiply_complex128(void* target, const void* left, const void* right, std::size_t count) {
  multiply<double>(target, left, right, count);
}

}  // namespace ucxring::cpu
