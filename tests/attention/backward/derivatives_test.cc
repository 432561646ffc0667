// The passes of derivatives: how they agree with each other, their bits, what masks hide, and what may be left out.
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
using testing::kInfinity;
using testing::kNan;
using testing::MovingArrays;
using testing::put;

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

// Three chunks of keys, so that threads add to the same queries in turn.
TEST_P(AttentionDerivatives, AnyNumberOfThreads) {
  for (const auto& [dtype, mask] : {std::pair(Dtype::f32, Mask()), {Dtype::f64, Mask::causal(Align::bottom_right)}}) {
    const MovingArrays a({1, 2, 70, 16}, {1, 1, 2100, 16}, 8, dtype);
    const Derivatives one = differentiate(a, {.mask = mask, .threads = 1});
    for (const int threads : {2, 3, 16}) {
      SCOPED_TRACE(threads);
      testing::expect_same(one, differentiate(a, {.mask = mask, .threads = threads}));
    }
  }
}

// The tangents of each query alone, cropped or in a batch.
TEST_P(AttentionDerivatives, ARowDoesNotDependOnItsNeighbours) {
  const MovingArrays all({2, 70, 16}, {2, 150, 16}, 8);
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {150, 97});
  MovingArrays batch = all, second = all;
  for (Tensor* x : {&batch.q, &batch.k, &batch.v, &batch.tq, &batch.tk, &batch.tv}) {
    *x = Tensor::copy(x->view().reshape({2, 1, x->size(1), x->size(2)}));
  }
  const auto crop = [](Tensor& x, std::int64_t begin, std::int64_t end) {
    x = Tensor::copy(x.view().slice(0, 1, 2).slice(1, begin, end));
  };
  for (Tensor* x : {&second.k, &second.v, &second.tk, &second.tv}) crop(*x, 0, 97);
  for (Tensor* x : {&second.q, &second.tq}) crop(*x, 5, 69);
  const testing::Moved whole = testing::jvp(batch, {.mask = Mask::causal() & Mask::lengths(lengths)});
  const testing::Moved part = testing::jvp(second, {.mask = Mask::window(1000, 5)});
  EXPECT_TRUE(testing::same_bits(part.out, whole.out.view().select(0, 1).slice(1, 5, 69)));
}

// NaN and infinities of a query reach no key that it does not see, those of a key no query that does not see it; a
// query that sees nothing takes no part, with a sink or without. What a mask hides from everybody:
// derivatives_grid_test.cc.
TEST_P(AttentionDerivatives, NanReachesWhatSeesItAlone) {
  const Tensor sinks = Tensor::of<float>({2}, {0.5f, -2});
  const Mask mask = Mask::causal(Align::bottom_right);  // query i sees the keys up to i - 20
  const auto expect_same_rows = [](const std::vector<std::pair<const Tensor*, const Tensor*>>& pairs, auto begin,
                                   auto end) {
    for (const auto& [x, y] : pairs) {
      EXPECT_TRUE(testing::same_bits(x->view().slice(1, begin, end), y->view().slice(1, begin, end)));
    }
  };
  for (const AttentionOptions& options : {AttentionOptions{.mask = mask}, {.mask = mask, .sinks = sinks}}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const MovingArrays clean({2, 60, 16}, {1, 40, 16}, 24, dtype);
      const Derivatives wanted = differentiate(clean, options);
      const auto& [first, moved, second] = wanted;
      for (const double poison : {kNan, kInfinity, -kInfinity}) {
        for (Tensor MovingArrays::* x : {&MovingArrays::q, &MovingArrays::tq, &MovingArrays::grad_out}) {
          MovingArrays poisoned = clean;
          put(poisoned.*x, {1, 11, 3}, poison);
          testing::expect_same(wanted, differentiate(poisoned, options));
          put(poisoned.*x, {1, 29, 0}, poison);
          const Derivatives got = differentiate(poisoned, options);
          expect_same_rows({{&got.first.key, &first.key},
                            {&got.first.value, &first.value},
                            {&got.second.key, &second.key},
                            {&got.second.value, &second.value}},
                           10, 40);
          EXPECT_FALSE(std::isfinite(testing::values(got.second.key)[0])) << "what it sees is not clean";
        }
        for (Tensor MovingArrays::* x : {&MovingArrays::k, &MovingArrays::tk, &MovingArrays::v, &MovingArrays::tv}) {
          MovingArrays poisoned = clean;
          put(poisoned.*x, {0, 9, 2}, poison);
          const Derivatives got = differentiate(poisoned, options);
          expect_same_rows({{&got.first.query, &first.query},
                            {&got.moved.out, &moved.out},
                            {&got.second.query, &second.query},
                            {&got.second.grad_out, &second.grad_out}},
                           0, 29);
          const std::vector<double> seen = testing::values(got.moved.out.view().select(1, 29));
          EXPECT_FALSE(std::isfinite(std::accumulate(seen.begin(), seen.end(), 0.0))) << "what sees it is not clean";
        }
      }
    }
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

// The passes over these arrays, after the forward pass, with some of the outputs.
struct Passes {
  void backward(const AttentionGradients& wish) const {
    attention_backward(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, options, wish);
  }
  void jvp(const AttentionTangents& tangents, const AttentionOutputTangents& wish) const {
    attention_jvp(a.q, a.k, a.v, kept.out, kept.log_sum_exp, tangents, options, wish);
  }
  void double_backward(const AttentionTangents& tangents, const AttentionSecondGradients& wish) const {
    attention_double_backward(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, tangents, options, wish);
  }
  const MovingArrays& a;
  AttentionOptions options{};
  testing::Forward kept = testing::forward(a.q, a.k, a.v, {});
};

TEST_P(AttentionDerivatives, EachAloneHasTheBitsOfAllTogether) {
  const MovingArrays a({2, 70, 16}, {1, 1100, 16}, 8);
  const Derivatives all = differentiate(a);
  Derivatives alone = all;
  for (Tensor* x : all_of(alone)) *x = filled(x->shape(), 7);
  auto& [first, moved, second] = alone;
  const Passes passes{a, {.threads = 2}};
  passes.backward({.query = first.query});
  passes.backward({.key = first.key});
  passes.backward({.value = first.value});
  passes.backward({});
  passes.jvp(a.tangents(), {.out = moved.out});
  passes.jvp(a.tangents(), {.log_sum_exp = moved.log_sum_exp});
  passes.double_backward(a.tangents(), {.query = second.query});
  passes.double_backward(a.tangents(), {.key = second.key});
  passes.double_backward(a.tangents(), {.value = second.value});
  passes.double_backward(a.tangents(), {.grad_out = second.grad_out});
  passes.double_backward(a.tangents(), {});
  testing::expect_same(all, alone);
}

// Both passes are linear in the tangents.
TEST_P(AttentionDerivatives, WhatIsNotGivenIsZero) {
  const MovingArrays a({20, 8}, {33, 8}, 5, Dtype::f64);
  const Passes passes{a};
  Tensor all = Tensor::zeros({20 + 20 + 33, 8}, Dtype::f64);
  const MutableTensorView out = all.view().slice(0, 0, 20).slice(1, 0, 5), query = all.view().slice(0, 20, 40);
  const auto along = [&](const AttentionTangents& tangents) {
    passes.jvp(tangents, {.out = out});
    passes.double_backward(tangents, {.query = query, .key = all.view().slice(0, 40, 73)});
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
