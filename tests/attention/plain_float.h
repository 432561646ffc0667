// Plain loops in float over one head, matrices [length, size]: what the errors of the kernels are measured by.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

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

// The rule for derivatives: at most three times as far from double as plain float. The floor: one rounding of the
// largest number, or of a term of its sums.
inline void expect_within_three_times(const std::string& name, const Tensor& own, const Tensor& plain,
                                      const Tensor& exact, double term = 0) {
  const double floor = 0x1p-23 * std::max(largest(exact), term);
  EXPECT_LE(difference(own, exact), 3 * difference(plain, exact) + floor) << name;
}

}  // namespace qkv::testing
