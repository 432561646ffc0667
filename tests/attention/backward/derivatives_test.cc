// The passes of derivatives: how they agree with each other, and what may be left out. Their bits, and what masks hide:
// same_bits_test.cc.
#include "attention/tangent/attention_tangents_testing.h"
#include "jacobian.h"

namespace qkv {
namespace {

using testing::Derivatives;
using testing::differentiate;
using testing::dot;
using testing::double_backward;
using testing::expect_zeros;
using testing::filled;
using testing::MovingArrays;

QKV_ON_EACH_TARGET(AttentionDerivatives);

// <grad_out, tangent of out> = <gradients, tangents>; second derivatives along x, seen from y, are those along y, seen
// from x.
TEST_P(AttentionDerivatives, OfOnePassAreThoseOfTheOthers) {
  const auto along = [](const auto& gradients, const MovingArrays& a) {
    return dot(gradients.query, a.tq) + dot(gradients.key, a.tk) + dot(gradients.value, a.tv);
  };
  // Sums of 13,440 and 161,600 terms near 1, which cancel to a few hundred.
  const auto expect_near = [](double x, double y) { EXPECT_NEAR(x, y, 1e-10 * std::max(1.0, std::abs(y))); };
  for (const Mask& mask : {Mask(), Mask::causal(), Mask::window(40, 3, Align::bottom_right)}) {
    const MovingArrays a({2, 4, 70, 16}, {2, 2, 1100, 16}, 24, Dtype::f64);
    const Derivatives all = differentiate(a, {.mask = mask});
    expect_near(dot(a.grad_out, all.moved.out), along(all.first, a));
    MovingArrays other = a;
    Random random(5);
    for (Tensor* x : {&other.tq, &other.tk, &other.tv}) *x = testing::normal(random, x->shape(), Dtype::f64);
    expect_near(along(double_backward(other, {.mask = mask}), a), along(all.second, other));
    EXPECT_GT(std::abs(along(all.second, other)), 0.1);
  }
}

// The sink has all of the weight; 1e30 is far above what a log-sum-exp of this size can tell.
TEST_P(AttentionDerivatives, RowsOfALargeSinkAloneDoNotMove) {
  const Tensor sinks = Tensor::of<double>({4}, {-1e30, 1e30, -1e4, 1e4});
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t k_len : {0, 5}) {
      const MovingArrays a({2, 4, 3, 8}, {2, 4, k_len, 8}, 6, dtype);
      const Tensor hidden = Tensor::zeros({1, 1, 1, k_len}, Dtype::boolean);
      const testing::Moved moved = testing::jvp(a, {.mask = Mask::boolean(hidden), .sinks = sinks});
      expect_zeros(moved.out);
      expect_zeros(moved.log_sum_exp);
    }
  }
}

std::vector<Tensor*> all_of(Derivatives& derivatives) {
  auto& [first, moved, second] = derivatives;
  return {&first.query,  &first.key,  &first.value,  &moved.out,      &moved.log_sum_exp,
          &second.query, &second.key, &second.value, &second.grad_out};
}

// Both passes are linear in the tangents.
TEST_P(AttentionDerivatives, WhatIsNotGivenIsZero) {
  const MovingArrays a({20, 8}, {33, 8}, 5, Dtype::f64);
  const testing::Forward kept = testing::forward(a.q, a.k, a.v, {});
  Tensor all = Tensor::zeros({20 + 20 + 33, 8}, Dtype::f64);
  const MutableTensorView out = all.view().slice(0, 0, 20).slice(1, 0, 5), query = all.view().slice(0, 20, 40);
  const auto along = [&](const AttentionTangents& tangents) {
    attention_jvp(a.q, a.k, a.v, kept.out, kept.log_sum_exp, tangents, {}, {.out = out});
    attention_double_backward(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, tangents, {},
                              {.query = query, .key = all.view().slice(0, 40, 73)});
    return testing::values(all);
  };
  const std::vector<double> of_q = along({.query = a.tq}), of_k = along({.key = a.tk}), of_v = along({.value = a.tv});
  const std::vector<double> of_all = along(a.tangents());
  for (std::size_t i = 0; i < of_all.size(); ++i) ASSERT_NEAR(of_q[i] + of_k[i] + of_v[i], of_all[i], 1e-13) << i;
  for (const double number : along({})) ASSERT_EQ(number, 0);
}

TEST_P(AttentionDerivatives, EmptySizes) {
  for (const Dims& size : {Dims{0, 2, 3, 4}, Dims{1, 0, 3, 4}, Dims{1, 2, 0, 4}, Dims{1, 2, 3, 0}}) {
    SCOPED_TRACE(to_string(size));  // [batch, heads, q_len, k_len]
    const Dims query{size[0], size[1], size[2], 8}, key{size[0], 1, size[3], 8};
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      Derivatives all = differentiate({query, key, 8, dtype});
      for (const Tensor* x : all_of(all)) expect_zeros(*x);
    }
    const Tensor q = filled(query, 1, Dtype::bf16), k = filled(key, 1, Dtype::bf16);
    const testing::Gradients halves = testing::backward(q, k, k, q);
    for (const Tensor* x : {&halves.query, &halves.key, &halves.value}) expect_zeros(*x);
  }
}

}  // namespace
}  // namespace qkv
