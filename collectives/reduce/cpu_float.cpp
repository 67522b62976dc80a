// Kernels of float32, float64 and, on pairs of lanes, of complex64 and complex128.
#include "collectives/reduce/cpu_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/cpu_float.cpp"
#include "hwy/foreach_target.h"

#include "collectives/reduce/cpu_loops-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ucxring::cpu {
namespace HWY_NAMESPACE {

/// Runs a kernel of a real type over both components of each complex element.
template <CombineKernel kKernel>
void combine_components(void* target, const void* left, const void* right, std::size_t count) {
  kKernel(target, left, right, 2 * count);
}

template <ScaleKernel kKernel>
void transform_components(void* target, const void* source, double parameter, std::size_t count) {
  kKernel(target, source, parameter, 2 * count);
}

template <typename T>
constexpr Row complex_row(DataType type, CombineKernel product) {
  constexpr CombineKernel kSum = combine_components<combine<Direct<T>, Sum>>;
  Row row{type};
  row[ReduceOp::sum] = {kSum};
  row[ReduceOp::average] = {kSum, nullptr, transform_components<divide<Direct<T>>>};
  row[ReduceOp::product] = {product};
  row[ReduceOp::premul_sum] = {kSum, transform_components<transform<Direct<T>, Product>>};
  return row;
}

std::span<const Row> float_rows() {
  static constexpr std::array<Row, 4> kRows{floating_row<Direct<float>>(DataType::float32),
                                            floating_row<Direct<double>>(DataType::float64),
                                            complex_row<float>(DataType::complex64, multiply_complex64),
                                            complex_row<double>(DataType::complex128, multiply_complex128)};
  return kRows;
}

}  // namespace HWY_NAMESPACE
}  // namespace ucxring::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ucxring::cpu {

HWY_EXPORT(float_rows);
std::span<const Row> float_rows() { return HWY_DYNAMIC_DISPATCH(float_rows)(); }

}  // namespace ucxring::cpu
#endif
