// The kernel of LayerNorm over rows.
#pragma once

#include <cstdint>

namespace qkv {

// out = (s - mean(s)) / sqrt(var(s) + epsilon) * weight + bias for each row s = x (+ added), with the biased variance.
// Rows of x and added lie a stride apart, those of out next to each other.
template <class T>
struct LayerNormRows {
  const T* x;
  std::int64_t x_stride;
  const T* added;  // nullptr: nothing
  std::int64_t added_stride;
  const T* weight;
  const T* bias;  // nullptr: none
  T* out;
  std::int64_t rows;
  std::int64_t size;
  double epsilon;
};

// A row's bits do not depend on the others.
void layer_norm_rows(const LayerNormRows<float>& rows);
void layer_norm_rows(const LayerNormRows<double>& rows);

}  // namespace qkv
