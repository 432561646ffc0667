// The kernels of LayerNorm and RMSNorm over rows.
#pragma once

#include <cstdint>

namespace qkv::inline ops {

// out = (s - mean(s)) / sqrt(var(s) + epsilon) * weight + bias for each row s = x (+ added), with the biased variance.
// Not centred: mean(s) is taken as 0. Rows of x and added lie a stride apart, those of out and sum next to each other.
template <class T>
struct LayerNormRows {
  const T* x;
  std::int64_t x_stride;
  const T* added;  // nullptr: nothing
  std::int64_t added_stride;
  const T* weight;
  const T* bias;  // nullptr: none
  T* sum;         // where s is wanted, which may be `added` itself; nullptr: nowhere
  T* out;
  std::int64_t rows;
  std::int64_t size;
  double epsilon;
  bool centred;
};

// A row's bits do not depend on the others.
void layer_norm_rows(const LayerNormRows<float>& rows);
void layer_norm_rows(const LayerNormRows<double>& rows);

// The gradients of that, from s: rows of s, grad_out and grad_s lie a stride apart. All results are added to.
template <class T>
struct LayerNormGradientRows {
  const T* s;
  std::int64_t s_stride;
  const T* grad_out;
  std::int64_t grad_out_stride;
  const T* weight;
  T* grad_s;  // nullptr: not wanted
  std::int64_t grad_s_stride;
  T* grad_weight;  // [size]
  T* grad_bias;    // [size]
  std::int64_t rows;
  std::int64_t size;
  double epsilon;
  bool centred;
};

void layer_norm_backward_rows(const LayerNormGradientRows<float>& rows);
void layer_norm_backward_rows(const LayerNormGradientRows<double>& rows);

}  // namespace qkv::inline ops
