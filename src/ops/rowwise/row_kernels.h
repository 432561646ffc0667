// The kernels that go row by row, each behind its dispatch in a file of its name.
#pragma once

#include <cstdint>
#include <span>

#include "attention/options/dropout.h"
#include "qkv/activation.h"

namespace qkv::inline ops {

// Activation functions over elements in place, and their derivatives.
void activate(Activation activation, float* x, std::int64_t count);
void activate(Activation activation, double* x, std::int64_t count);

// x *= factor, element by element.
void multiply_elements(float* x, const float* factor, std::int64_t count);

// gradient *= the derivative at x. relu has derivative 0 at 0, as in torch.
void activate_backward(Activation activation, const float* x, float* gradient, std::int64_t count);
void activate_backward(Activation activation, const double* x, double* gradient, std::int64_t count);

// Takes rows [rows, classes], a stride apart, and leaves in them the gradients of
//   loss = (1 - smoothing) * nll[target] + smoothing * mean of nll over the classes,   nll[c] = log-sum-exp - logit[c]
// times `scale`, if `gradients` is set; else what is in them does not matter. A row with a negative target has loss and
// gradients 0. `excluded` is no class: its logit does not matter, its gradient is 0; -1: none.
template <class T>
struct CrossEntropyRows {
  T* logits;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t classes;
  const std::int32_t* targets;
  std::int64_t excluded;
  double smoothing;
  double scale;
  bool gradients;
  double* loss;  // [rows]
  double* nll;   // [rows], of the target
};

void cross_entropy_rows(const CrossEntropyRows<float>& rows);
void cross_entropy_rows(const CrossEntropyRows<double>& rows);

// out = x / rate where the element is kept, else 0. Element (row, column) is kept as the weight of query `row` and key
// `column` would be, in head 0 of sequence 0. x and out may be the same; their rows lie a stride apart.
template <class T>
struct DropoutRows {
  DropoutRule rule;
  const T* x;
  std::int64_t x_stride;
  T* out;
  std::int64_t out_stride;
  std::int64_t first_row;  // the number of the first of `rows`
  std::int64_t rows;
  std::int64_t size;
};

void drop_rows(const DropoutRows<float>& rows);
void drop_rows(const DropoutRows<double>& rows);

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

// What the search for tokens needs of a row of logits: its largest ones and its log-sum-exp.
// log(sum(exp(row))), NaN if one of them is.
double log_sum_exp(std::span<const float> row);

struct TokenLogit {
  float logit;
  std::int32_t token;
};

// The largest logits of the row, falling, into `best`; equal ones: the lower token first. NaN and -infinity are passed
// over; returns how many were found.
std::size_t largest_logits(std::span<const float> row, std::span<TokenLogit> best);

}  // namespace qkv::inline ops
