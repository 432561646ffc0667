// Plain loops in float over one head, matrices [length, size]: what the errors of the kernels are measured by.
#pragma once

#include "attention/attention_testing.h"

namespace qkv::testing {

struct PlainShape {
  std::int64_t q_len, k_len, head_dim, value_dim;
  double spread;  // of queries; larger ones make larger logits
  bool causal = false;
};

inline std::string describe(const PlainShape& shape) {
  return fmt::format("{} x {} x {}", shape.q_len, shape.k_len, shape.head_dim);
}

inline const float* row(const Tensor& matrix, std::int64_t i) { return matrix.data<float>() + i * matrix.size(-1); }

inline float dot(const float* a, const float* b, std::int64_t size) {
  float sum = 0;
  for (std::int64_t c = 0; c < size; ++c) sum += a[c] * b[c];
  return sum;
}

// The weights of the obvious computation: every product, sum and exponential rounded to float.
inline Tensor plain_weights(const Tensor& q, const Tensor& k, bool causal) {
  const std::int64_t k_len = k.size(0), size = q.size(1);
  const float scale = 1 / std::sqrt(static_cast<float>(size));
  Tensor weights = Tensor::zeros({q.size(0), k_len});
  for (std::int64_t i = 0; i < q.size(0); ++i) {
    const std::span<float> own(weights.data<float>() + i * k_len,
                               static_cast<std::size_t>(causal ? std::min(i + 1, k_len) : k_len));
    for (std::size_t j = 0; j < own.size(); ++j) {
      own[j] = scale * dot(row(q, i), row(k, static_cast<std::int64_t>(j)), size);
    }
    const float largest = *std::max_element(own.begin(), own.end());
    float sum = 0;
    for (float& weight : own) sum += weight = std::exp(weight - largest);
    for (float& weight : own) weight /= sum;
  }
  return weights;
}

// The rule for derivatives: at most three times as far from double as plain float. The floor: one rounding of the
// largest number, or of a term of its sums.
inline void expect_within_three_times(const std::string& name, const Tensor& own, const Tensor& plain,
                                      const Tensor& exact, double term = 0) {
  const double floor = 0x1p-23 * std::max(largest(exact), term);
  EXPECT_LE(difference(own, exact), 3 * difference(plain, exact) + floor) << name;
}

}  // namespace qkv::testing
