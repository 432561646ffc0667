// Kernels of LayerNorm and RMSNorm, forward and backward, compiled once per CPU target.
#include "ops/rowwise/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rowwise/layer_norm.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/lane_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// One row in three passes, all but the first within the nearest cache: sum, squares around the mean, result.
// 1. s = x (+ added); returns the sum.
template <class T>
HWY_INLINE T sum_row(const T* x, const T* added, T* s, std::int64_t size) {
  LaneSums<T> sums;
  for_each_vector<T>(size, [&](int v, std::int64_t i, auto lanes) HWY_ATTR {
    Vec<T> value = lanes.load(x + i);
    if (added != nullptr) value = hn::Add(value, lanes.load(added + i));
    lanes.store(value, s + i);
    sums.add(v, value);
  });
  return sums.total();
}

// 2. The sum of (s - mean)^2.
template <class T>
HWY_INLINE T squares_row(const T* s, T mean, std::int64_t size) {
  const Tag<T> d;
  LaneSums<T> sums;
  for_each_vector<T>(size, [&](int v, std::int64_t i, auto lanes) HWY_ATTR {
    const Vec<T> distance = lanes.keep(hn::Sub(lanes.load(s + i), hn::Set(d, mean)), hn::Zero(d));
    sums.multiply_add(v, distance, distance);
  });
  return sums.total();
}

// 3. out = (s - mean) * scale * weight + bias.
template <class T>
HWY_INLINE void scale_row(const T* s, T* out, T mean, T scale, const T* HWY_RESTRICT weight, const T* HWY_RESTRICT bias,
                          std::int64_t size) {
  const Tag<T> d;
  for_each_vector<T>(size, [&](int, std::int64_t i, auto lanes) HWY_ATTR {
    const Vec<T> distance = hn::Sub(lanes.load(s + i), hn::Set(d, mean));
    Vec<T> value = hn::Mul(hn::Mul(distance, hn::Set(d, scale)), lanes.load(weight + i));
    if (bias != nullptr) value = hn::Add(value, lanes.load(bias + i));
    lanes.store(value, out + i);
  });
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
  LaneSums<T> sums;
  for_each_vector<T>(size, [&](int v, std::int64_t i, auto lanes) HWY_ATTR { sums.add(v, lanes.load(s + i)); });
  return sums.total();
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
  LaneSums<T> gradients, products;
  for_each_vector<T>(rows.size, [&](int v, std::int64_t i, auto lanes) HWY_ATTR {
    const Vec<T> normal = hn::Mul(hn::Sub(lanes.load(s + i), hn::Set(d, mean)), hn::Set(d, scale));
    const Vec<T> above = lanes.load(grad_out + i);
    const Vec<T> scaled = hn::Mul(above, lanes.load(rows.weight + i));
    gradients.add(v, scaled);
    products.multiply_add(v, scaled, normal);
    lanes.store(hn::MulAdd(above, normal, lanes.load(rows.grad_weight + i)), rows.grad_weight + i);
    lanes.store(hn::Add(above, lanes.load(rows.grad_bias + i)), rows.grad_bias + i);
  });
  const T count = static_cast<T>(rows.size);
  return {.gradient = rows.centred ? gradients.total() / count : T(0), .product = products.total() / count};
}

// grad_s += scale (g - mean of g - n mean of g n)
template <class T>
HWY_INLINE void add_row_gradient(const LayerNormGradientRows<T>& rows, const T* s, const T* grad_out, T mean, T scale,
                                 const RowMeans<T>& means, T* grad_s) {
  const Tag<T> d;
  for_each_vector<T>(rows.size, [&](int, std::int64_t i, auto lanes) HWY_ATTR {
    const Vec<T> normal = hn::Mul(hn::Sub(lanes.load(s + i), hn::Set(d, mean)), hn::Set(d, scale));
    const Vec<T> scaled = hn::Mul(lanes.load(grad_out + i), lanes.load(rows.weight + i));
    const Vec<T> rest = hn::NegMulAdd(normal, hn::Set(d, means.product), hn::Sub(scaled, hn::Set(d, means.gradient)));
    lanes.store(hn::MulAdd(rest, hn::Set(d, scale), lanes.load(grad_s + i)), grad_s + i);
  });
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
