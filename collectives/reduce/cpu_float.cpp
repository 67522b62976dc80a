// Kernels of float32, float64 and, on pairs of lanes, of complex64 and complex128.
#include "collectives/reduce/cpu_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/cpu_float.cpp"
#include "hwy/foreach_target.h"

#include "collectives/reduce/cpu_loops-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ucxring::cpu {
namespace HWY_NAMESPACE {

template <ScaleKernel kKernel>
void transform_components(void* target, const void* source, double parameter, std::size_t count) {
  kKernel(target, source, parameter, 2 * count);
}

/// Real and imaginary parts are combined apart, except by the product.
template <typename T, CombineKernel kProduct>
constexpr Row complex_row(DataType type) {
  using Real = Direct<T>;
  constexpr CombineKernel kSum = combine_parts<combine<Real, Sum>, 2>;
  constexpr FoldKernel kFold = fold_parts<fold<Real, Sum>, 2>;
  Row row{type};
  row[ReduceOp::sum] = {kSum, nullptr, nullptr, kFold};
  row[ReduceOp::average] = {kSum, nullptr, transform_components<divide<Real>>,
                            fold_parts<fold<Real, Sum, Quotient>, 2>};
  row[ReduceOp::product] = {kProduct, nullptr, nullptr, fold_by_slices<kProduct, 2 * sizeof(T)>};
  row[ReduceOp::premul_sum] = {kSum, transform_components<scale<Real>>, nullptr, kFold};
  return row;
}

std::span<const Row> float_rows() {
  static constexpr std::array<Row, 4> kRows{floating_row<Direct<float>>(DataType::float32),
                                            floating_row<Direct<double>>(DataType::float64),
                                            complex_row<float, multiply_complex64>(DataType::complex64),
                                            complex_row<double, multiply_complex128>(DataType::complex128)};
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
