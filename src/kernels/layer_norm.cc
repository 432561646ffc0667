#include "kernels/layer_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm.cc"
#include "kernels/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// One row in three passes, all but the first within the nearest cache: sum, squares around the mean, result.
// 1. out = x (+ added); returns the sum.
template <class T>
HWY_INLINE T sum_row(const T* HWY_RESTRICT x, const T* HWY_RESTRICT added, T* out, std::int64_t size) {
  const Tag<T> d;
  Vec<T> sums = hn::Zero(d);
  T sum = 0;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= size; i += kLanes<T>) {
    Vec<T> value = hn::LoadU(d, x + i);
    if (added != nullptr) value = hn::Add(value, hn::LoadU(d, added + i));
    hn::StoreU(value, d, out + i);
    sums = hn::Add(sums, value);
  }
  for (; i < size; ++i) {
    out[i] = added != nullptr ? x[i] + added[i] : x[i];
    sum += out[i];
  }
  return sum + hn::GetLane(hn::SumOfLanes(d, sums));
}

// 2. The sum of (out - mean)^2.
template <class T>
HWY_INLINE T squares_row(const T* out, T mean, std::int64_t size) {
  const Tag<T> d;
  Vec<T> sums = hn::Zero(d);
  T sum = 0;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= size; i += kLanes<T>) {
    const Vec<T> distance = hn::Sub(hn::LoadU(d, out + i), hn::Set(d, mean));
    sums = hn::MulAdd(distance, distance, sums);
  }
  for (; i < size; ++i) sum += (out[i] - mean) * (out[i] - mean);
  return sum + hn::GetLane(hn::SumOfLanes(d, sums));
}

// 3. out = (out - mean) * scale * weight + bias.
template <class T>
HWY_INLINE void scale_row(T* out, T mean, T scale, const T* HWY_RESTRICT weight, const T* HWY_RESTRICT bias,
                          std::int64_t size) {
  const Tag<T> d;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= size; i += kLanes<T>) {
    const Vec<T> distance = hn::Sub(hn::LoadU(d, out + i), hn::Set(d, mean));
    Vec<T> value = hn::Mul(hn::Mul(distance, hn::Set(d, scale)), hn::LoadU(d, weight + i));
    if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + i));
    hn::StoreU(value, d, out + i);
  }
  for (; i < size; ++i) {
    out[i] = (out[i] - mean) * scale * weight[i];
    if (bias != nullptr) out[i] += bias[i];
  }
}

template <class T>
void layer_norm(const LayerNormRows<T>& rows) {
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    T* out = rows.out + r * rows.size;
    const T count = static_cast<T>(rows.size);
    const T* added = rows.added == nullptr ? nullptr : rows.added + r * rows.added_stride;
    const T mean = sum_row(rows.x + r * rows.x_stride, added, out, rows.size) / count;
    const T variance = squares_row(out, mean, rows.size) / count;
    const T deviation = hn::GetLane(hn::Sqrt(hn::Set(Tag<T>(), variance + static_cast<T>(rows.epsilon))));
    scale_row(out, mean, T(1) / deviation, rows.weight, rows.bias, rows.size);
  }
}

void layer_norm_f32(const LayerNormRows<float>& rows) { layer_norm(rows); }
void layer_norm_f64(const LayerNormRows<double>& rows) { layer_norm(rows); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "kernels/dispatch.h"

namespace qkv {
namespace {

HWY_EXPORT(layer_norm_f32);
HWY_EXPORT(layer_norm_f64);

}  // namespace

void layer_norm_rows(const LayerNormRows<float>& rows) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(layer_norm_f32)(rows);
}

void layer_norm_rows(const LayerNormRows<double>& rows) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(layer_norm_f64)(rows);
}

}  // namespace qkv
#endif  // HWY_ONCE
