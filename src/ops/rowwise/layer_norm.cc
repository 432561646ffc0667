// Kernels of LayerNorm and RMSNorm, forward and backward, compiled once per CPU target.
#include "ops/rowwise/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rowwise/layer_norm.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// One row in three passes, all but the first within the nearest cache: sum, squares around the mean, result.
// 1. s = x (+ added); returns the sum.
template <class T>
HWY_INLINE T sum_row(const T* x, const T* added, T* s, std::int64_t size) {
  const Tag<T> d;
  Vec<T> sums = hn::Zero(d);
  T sum = 0;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= size; i += kLanes<T>) {
    Vec<T> value = hn::LoadU(d, x + i);
    if (added != nullptr) value = hn::Add(value, hn::LoadU(d, added + i));
    hn::StoreU(value, d, s + i);
    sums = hn::Add(sums, value);
  }
  for (; i < size; ++i) {
    s[i] = added != nullptr ? x[i] + added[i] : x[i];
    sum += s[i];
  }
  return sum + hn::GetLane(hn::SumOfLanes(d, sums));
}

// 2. The sum of (s - mean)^2.
template <class T>
HWY_INLINE T squares_row(const T* s, T mean, std::int64_t size) {
  const Tag<T> d;
  Vec<T> sums = hn::Zero(d);
  T sum = 0;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= size; i += kLanes<T>) {
    const Vec<T> distance = hn::Sub(hn::LoadU(d, s + i), hn::Set(d, mean));
    sums = hn::MulAdd(distance, distance, sums);
  }
  for (; i < size; ++i) sum += (s[i] - mean) * (s[i] - mean);
  return sum + hn::GetLane(hn::SumOfLanes(d, sums));
}

// 3. out = (s - mean) * scale * weight + bias.
template <class T>
HWY_INLINE void scale_row(const T* s, T* out, T mean, T scale, const T* HWY_RESTRICT weight, const T* HWY_RESTRICT bias,
                          std::int64_t size) {
  const Tag<T> d;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= size; i += kLanes<T>) {
    const Vec<T> distance = hn::Sub(hn::LoadU(d, s + i), hn::Set(d, mean));
    Vec<T> value = hn::Mul(hn::Mul(distance, hn::Set(d, scale)), hn::LoadU(d, weight + i));
    if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + i));
    hn::StoreU(value, d, out + i);
  }
  for (; i < size; ++i) {
    out[i] = (s[i] - mean) * scale * weight[i];
    if (bias != nullptr) out[i] += bias[i];
  }
}

// 1 / sqrt(variance + epsilon)
template <class T>
HWY_INLINE T scale_of_row(const T* s, T mean, std::int64_t size, double epsilon) {
  const T variance = squares_row(s, mean, size) / static_cast<T>(size);
  return T(1) / hn::GetLane(hn::Sqrt(hn::Set(Tag<T>(), variance + static_cast<T>(epsilon))));
}

template <class T>
void layer_norm(const LayerNormRows<T>& rows) {
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    T* out = rows.out + r * rows.size;
    T* s = rows.sum != nullptr ? rows.sum + r * rows.size : out;
    const T* added = rows.added == nullptr ? nullptr : rows.added + r * rows.added_stride;
    const T sum = sum_row(rows.x + r * rows.x_stride, added, s, rows.size);
    const T mean = rows.centred ? sum / static_cast<T>(rows.size) : T(0);
    scale_row(s, out, mean, scale_of_row(s, mean, rows.size, rows.epsilon), rows.weight, rows.bias, rows.size);
  }
}

// The sum of a row as sum_row() adds it up.
template <class T>
HWY_INLINE T total_of_row(const T* s, std::int64_t size) {
  const Tag<T> d;
  Vec<T> sums = hn::Zero(d);
  T sum = 0;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= size; i += kLanes<T>) sums = hn::Add(sums, hn::LoadU(d, s + i));
  for (; i < size; ++i) sum += s[i];
  return sum + hn::GetLane(hn::SumOfLanes(d, sums));
}

// What a row's gradient is made of: n = (s - mean) scale, g = grad_out weight.
template <class T>
struct RowMeans {
  T gradient;  // of g; 0 if not centred
  T product;   // of g n
};

// Adds grad_out n to the gradient of the weight and grad_out to that of the bias, and takes the means.
template <class T>
HWY_INLINE RowMeans<T> add_parameter_gradients(const LayerNormGradientRows<T>& rows, const T* s,
                                               const T* HWY_RESTRICT grad_out, T mean, T scale) {
  const Tag<T> d;
  Vec<T> gradients = hn::Zero(d), products = hn::Zero(d);
  T gradient = 0, product = 0;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= rows.size; i += kLanes<T>) {
    const Vec<T> normal = hn::Mul(hn::Sub(hn::LoadU(d, s + i), hn::Set(d, mean)), hn::Set(d, scale));
    const Vec<T> above = hn::LoadU(d, grad_out + i);
    const Vec<T> scaled = hn::Mul(above, hn::LoadU(d, rows.weight + i));
    gradients = hn::Add(gradients, scaled);
    products = hn::MulAdd(scaled, normal, products);
    hn::StoreU(hn::MulAdd(above, normal, hn::LoadU(d, rows.grad_weight + i)), d, rows.grad_weight + i);
    hn::StoreU(hn::Add(above, hn::LoadU(d, rows.grad_bias + i)), d, rows.grad_bias + i);
  }
  for (; i < rows.size; ++i) {
    const T normal = (s[i] - mean) * scale, scaled = grad_out[i] * rows.weight[i];
    gradient += scaled;
    product += scaled * normal;
    rows.grad_weight[i] += grad_out[i] * normal;
    rows.grad_bias[i] += grad_out[i];
  }
  const T count = static_cast<T>(rows.size);
  return {.gradient = rows.centred ? (gradient + hn::GetLane(hn::SumOfLanes(d, gradients))) / count : T(0),
          .product = (product + hn::GetLane(hn::SumOfLanes(d, products))) / count};
}

// grad_s += scale (g - mean of g - n mean of g n)
template <class T>
HWY_INLINE void add_row_gradient(const LayerNormGradientRows<T>& rows, const T* s, const T* grad_out, T mean, T scale,
                                 const RowMeans<T>& means, T* grad_s) {
  const Tag<T> d;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= rows.size; i += kLanes<T>) {
    const Vec<T> normal = hn::Mul(hn::Sub(hn::LoadU(d, s + i), hn::Set(d, mean)), hn::Set(d, scale));
    const Vec<T> scaled = hn::Mul(hn::LoadU(d, grad_out + i), hn::LoadU(d, rows.weight + i));
    const Vec<T> rest = hn::NegMulAdd(normal, hn::Set(d, means.product), hn::Sub(scaled, hn::Set(d, means.gradient)));
    hn::StoreU(hn::MulAdd(rest, hn::Set(d, scale), hn::LoadU(d, grad_s + i)), d, grad_s + i);
  }
  for (; i < rows.size; ++i) {
    const T normal = (s[i] - mean) * scale, scaled = grad_out[i] * rows.weight[i];
    grad_s[i] += scale * (scaled - means.gradient - normal * means.product);
  }
}

template <class T>
void layer_norm_backward(const LayerNormGradientRows<T>& rows) {
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const T *s = rows.s + r * rows.s_stride, *grad_out = rows.grad_out + r * rows.grad_out_stride;
    const T mean = rows.centred ? total_of_row(s, rows.size) / static_cast<T>(rows.size) : T(0);
    const T scale = scale_of_row(s, mean, rows.size, rows.epsilon);
    const RowMeans<T> means = add_parameter_gradients(rows, s, grad_out, mean, scale);
    if (rows.grad_s == nullptr) continue;
    add_row_gradient(rows, s, grad_out, mean, scale, means, rows.grad_s + r * rows.grad_s_stride);
  }
}

void layer_norm_f32(const LayerNormRows<float>& rows) { layer_norm(rows); }
void layer_norm_f64(const LayerNormRows<double>& rows) { layer_norm(rows); }
void layer_norm_backward_f32(const LayerNormGradientRows<float>& rows) { layer_norm_backward(rows); }
void layer_norm_backward_f64(const LayerNormGradientRows<double>& rows) { layer_norm_backward(rows); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(layer_norm_f32);
HWY_EXPORT(layer_norm_f64);
HWY_EXPORT(layer_norm_backward_f32);
HWY_EXPORT(layer_norm_backward_f64);

}  // namespace

void layer_norm_rows(const LayerNormRows<float>& rows) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(layer_norm_f32)(rows);
}

void layer_norm_rows(const LayerNormRows<double>& rows) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(layer_norm_f64)(rows);
}

void layer_norm_backward_rows(const LayerNormGradientRows<float>& rows) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(layer_norm_backward_f32)(rows);
}

void layer_norm_backward_rows(const LayerNormGradientRows<double>& rows) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(layer_norm_backward_f64)(rows);
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
