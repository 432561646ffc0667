// How the int8 kernels of matmul store their results. Included once per CPU target.

#if defined(QKV_OPS_MATMUL_INT8_STORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_OPS_MATMUL_INT8_STORE_INL_H_
#undef QKV_OPS_MATMUL_INT8_STORE_INL_H_
#else
#define QKV_OPS_MATMUL_INT8_STORE_INL_H_
#endif

#include "ops/matmul/int8_panel.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// What store_values() does with fewer columns than a vector holds.
inline HWY_NOINLINE void store_rest(const Int8Product& product, std::int64_t row, std::int64_t column,
                                    Vec<float> values) {
  HWY_ALIGN float numbers[kLanes<float>];
  hn::Store(values, Tag<float>(), numbers);
  float* out = product.out + row * product.out_stride;
  for (const float* number = numbers; column < product.columns; ++column, ++number) {
    const float value = product.accumulate ? out[column] + *number : *number;
    out[column] = product.bias == nullptr ? value : value + product.bias[column];
  }
}

// out = (out +) values (+ bias), in this order, of a row from `column` on, as far as there are columns.
HWY_INLINE void store_values(const Int8Product& product, std::int64_t row, std::int64_t column, Vec<float> values) {
  const Tag<float> d;
  if (product.columns - column < kLanes<float>) return store_rest(product, row, column, values);
  float* out = product.out + row * product.out_stride + column;
  if (product.accumulate) values = hn::Add(hn::LoadU(d, out), values);
  if (product.bias != nullptr) values = hn::Add(values, hn::LoadU(d, product.bias + column));
  hn::StoreU(values, d, out);
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
