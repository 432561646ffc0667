// The double backward: finite differences of attention_backward(), its error, its bits, what masks hide, and what is
// refused.
#include "qkv/attention/attention_double_backward.h"

#include <functional>

#include "attention/tangent/attention_tangents_testing.h"
#include "jacobian.h"
#include "qkv/error.h"
#include "reference/attention_tangents.h"

namespace qkv {
namespace {

using testing::dot;
using testing::double_backward;
using testing::expect_zeros;
using testing::filled;
using testing::MovingArrays;
using testing::put;
using testing::row;

QKV_ON_EACH_TARGET(AttentionDoubleBackward);

// Element by element, in f64, through the fused passes alone.
TEST_P(AttentionDoubleBackward, IsTheGradientOfTheGradients) {
  struct Case {
    Dims query, key;
    std::int64_t value_dim;
    AttentionOptions options;
  };
  const Case cases[] = {{{2, 5, 4}, {1, 7, 4}, 3, {}},
                        {{9, 3}, {9, 3}, 5, {.mask = Mask::causal()}},
                        {{2, 4, 3}, {2, 6, 3}, 3, {.mask = Mask::causal(Align::bottom_right), .scale = -0.8}}};
  for (const auto& [query, key, value_dim, options] : cases) {
    MovingArrays a(query, key, value_dim, Dtype::f64);
    const auto loss = [&] {
      const testing::Gradients first = testing::backward(a.q, a.k, a.v, a.grad_out, options);
      return testing::dot(a.tq, first.query) + testing::dot(a.tk, first.key) + testing::dot(a.tv, first.value);
    };
    const testing::SecondGradients given = double_backward(a, options);
    testing::expect_gradient(loss, a.q, given.query);
    testing::expect_gradient(loss, a.k, given.key);
    testing::expect_gradient(loss, a.v, given.value);
    testing::expect_gradient(loss, a.grad_out, given.grad_out);
  }
}

// The second derivatives of <grad_out, out> along x, seen from y, are those along y, seen from x.
TEST_P(AttentionDoubleBackward, SecondDerivativesAreSymmetric) {
  MovingArrays a({2, 70, 16}, {1, 1100, 16}, 8, Dtype::f64);
  const AttentionOptions options{.mask = Mask::window(800, 40)};
  const testing::SecondGradients along = double_backward(a, options);
  const MovingArrays one = a;
  Random random(5);
  for (Tensor* x : {&a.tq, &a.tk, &a.tv}) *x = testing::normal(random, x->shape(), Dtype::f64);
  const testing::SecondGradients other = double_backward(a, options);
  const auto product = [](const testing::SecondGradients& x, const MovingArrays& y) {
    return testing::dot(x.query, y.tq) + testing::dot(x.key, y.tk) + testing::dot(x.value, y.tv);
  };
  const double wanted = product(along, a);
  EXPECT_NEAR(product(other, one), wanted, 1e-10 * std::max(1.0, std::abs(wanted)));
  EXPECT_GT(std::abs(wanted), 0.1);
}

// At most three times as far from double as the reference's own formula is, computed in float.
struct Plain {
  Tensor query, key, value;
};

Plain plain_float(const MovingArrays& a, bool causal) {
  const std::int64_t q_len = a.q.size(0), head_dim = a.q.size(1), value_dim = a.v.size(1);
  Plain plain{Tensor::zeros(a.q.shape()), Tensor::zeros(a.k.shape()), Tensor::zeros(a.v.shape())};
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  const auto to = [](Tensor& x, std::int64_t i) { return x.data<float>() + i * x.size(1); };
  const auto add = [](float* sum, float factor, const float* term, std::int64_t size) {
    for (std::int64_t c = 0; c < size; ++c) sum[c] += factor * term[c];
  };
  for (std::int64_t i = 0; i < q_len; ++i) {
    const auto& [weights, slopes, mean] = testing::plain_row(a, i, causal);
    const std::size_t keys = weights.size();
    std::vector<float> products(keys), grads(keys);
    float mean_product = 0, mean_grad = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      products[j] = dot(row(a.grad_out, i), row(a.v, static_cast<std::int64_t>(j)), value_dim);
      mean_product += weights[j] * products[j];
    }
    for (std::size_t j = 0; j < keys; ++j) {
      grads[j] = (slopes[j] - mean) * products[j] +
                 dot(row(a.grad_out, i), row(a.tv, static_cast<std::int64_t>(j)), value_dim) - slopes[j] * mean_product;
      mean_grad += weights[j] * grads[j];
    }
    for (std::size_t j = 0; j < keys; ++j) {
      const auto key = static_cast<std::int64_t>(j);
      const float grad_slope = scale * weights[j] * (products[j] - mean_product);
      const float grad_logit = scale * weights[j] * (grads[j] - mean_grad);
      add(to(plain.value, key), weights[j] * (slopes[j] - mean), row(a.grad_out, i), value_dim);
      add(to(plain.query, i), grad_slope, row(a.tk, key), head_dim);
      add(to(plain.query, i), grad_logit, row(a.k, key), head_dim);
      add(to(plain.key, key), grad_slope, row(a.tq, i), head_dim);
      add(to(plain.key, key), grad_logit, row(a.q, i), head_dim);
    }
  }
  return plain;
}

constexpr testing::PlainShape kShapes[] = {{48, 128, 64, 64, 1}, {300, 300, 32, 32, 1, true}, {20, 1023, 128, 96, 4},
                                           {9, 129, 256, 8, 8},  {17, 65, 1, 3, 8},           {12, 3000, 64, 32, 2}};

TEST_P(AttentionDoubleBackward, FloatStaysWithinThreeTimesThePlainError) {
  for (const testing::PlainShape& shape : kShapes) {
    const MovingArrays a({shape.q_len, shape.head_dim}, {shape.k_len, shape.head_dim}, shape.value_dim, Dtype::f32,
                         shape.spread);
    const AttentionOptions options{.mask = shape.causal ? Mask::causal() : Mask()};
    const reference::SecondGradients exact =
        reference::attention_double_backward(a.q, a.k, a.v, a.grad_out, a.tangents(), options);
    const Plain plain = plain_float(a, shape.causal);
    const testing::SecondGradients got = double_backward(a, options);
    SCOPED_TRACE(describe(shape));
    testing::expect_within_three_times("queries", got.query, plain.query, exact.query);
    testing::expect_within_three_times("keys", got.key, plain.key, exact.key);
    testing::expect_within_three_times("values", got.value, plain.value, exact.value);
  }
}

// Three chunks of keys, so that threads add to the same queries in turn.
TEST_P(AttentionDoubleBackward, AnyNumberOfThreads) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const MovingArrays a({1, 2, 70, 16}, {1, 1, 2100, 16}, 8, dtype);
    for (const Mask& mask : {Mask(), Mask::causal(Align::bottom_right)}) {
      const testing::SecondGradients one = double_backward(a, {.mask = mask, .threads = 1});
      for (const int threads : {2, 3, 4, 7, 16}) {
        SCOPED_TRACE(threads);
        testing::expect_same(one, double_backward(a, {.mask = mask, .threads = threads}));
      }
    }
  }
}

// Keys 0, 70 and 139 are hidden from everybody, keys 3 and 90 from half of the queries, query 11 sees nothing.
TEST_P(AttentionDoubleBackward, HiddenKeysAndRowsWithoutKeys) {
  Tensor visible = filled({30, 140}, 1, Dtype::u8);
  const auto hide = [&](std::int64_t i, std::int64_t j) { visible.view().at<std::uint8_t>({i, j}) = 0; };
  for (std::int64_t i = 0; i < 30; ++i) {
    for (const std::int64_t j : {0, 70, 139}) hide(i, j);
    if (i % 2 == 0) hide(i, 3), hide(i, 90);
  }
  for (std::int64_t j = 0; j < 140; ++j) hide(11, j);
  const AttentionOptions options{.mask = Mask::boolean(visible)};
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const MovingArrays clean({2, 30, 16}, {1, 140, 16}, 24, dtype);
    const testing::SecondGradients wanted = double_backward(clean, options);
    expect_zeros(wanted.query.view().select(1, 11));
    expect_zeros(wanted.grad_out.view().select(1, 11));
    for (const std::int64_t j : {0, 70, 139}) {
      expect_zeros(wanted.key.view().select(1, j));
      expect_zeros(wanted.value.view().select(1, j));
    }
    for (const double poison : {testing::kNan, testing::kInfinity}) {
      MovingArrays poisoned = clean;
      for (const std::int64_t j : {0, 70, 139}) {
        for (Tensor* x : {&poisoned.k, &poisoned.tk, &poisoned.v, &poisoned.tv}) put(*x, {0, j, 5}, poison);
      }
      put(poisoned.q, {1, 11, 3}, poison);
      put(poisoned.tq, {0, 11, 3}, poison);
      put(poisoned.grad_out, {0, 11, 3}, poison);
      testing::expect_same(wanted, double_backward(poisoned, options));
    }
    // NaN that half of the queries see reaches these.
    MovingArrays seen = clean;
    put(seen.tk, {0, 3, 2}, testing::kNan);
    const testing::SecondGradients gradients = double_backward(seen, options);
    for (std::int64_t i = 0; i < 30; ++i) {
      const std::vector<double> row = testing::values(gradients.query.view().select(0, 1).select(0, i));
      for (const double value : row) ASSERT_EQ(std::isnan(value), i % 2 == 1 && i != 11) << "query " << i;
    }
  }
}

// NaN and infinities of a query and of its tangent reach no key that it does not see, with a sink or without.
TEST_P(AttentionDoubleBackward, KeysThatAQueryDoesNotSeeAreClean) {
  const Tensor sinks = Tensor::of<float>({2}, {0.5f, -2});
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    MovingArrays clean({2, 30, 16}, {1, 140, 16}, 24, dtype);
    for (const bool has_sinks : {false, true}) {
      AttentionOptions options{.mask = Mask::causal()};
      if (has_sinks) options.sinks = sinks;
      const testing::SecondGradients wanted = double_backward(clean, options);
      for (const double poison : {testing::kNan, testing::kInfinity, -testing::kInfinity}) {
        for (Tensor MovingArrays::* x : {&MovingArrays::q, &MovingArrays::tq, &MovingArrays::grad_out}) {
          MovingArrays poisoned = clean;
          put(poisoned.*x, {1, 9, 0}, poison);
          const testing::SecondGradients gradients = double_backward(poisoned, options);
          const auto rows = [](const Tensor& of) { return Tensor::copy(of.view().slice(1, 10, 140)); };
          EXPECT_TRUE(testing::same_bits(rows(gradients.key), rows(wanted.key)));
          EXPECT_TRUE(testing::same_bits(rows(gradients.value), rows(wanted.value)));
          EXPECT_FALSE(std::isfinite(testing::values(gradients.key)[0])) << "what it sees is not";
        }
      }
    }
  }
}

// A row without keys that has a sink takes no part.
TEST_P(AttentionDoubleBackward, RowsWithASinkAloneTakeNoPart) {
  const Tensor sinks = Tensor::of<float>({2}, {0.5f, -2});
  Tensor visible = filled({30, 140}, 1, Dtype::u8);
  for (std::int64_t j = 0; j < 140; ++j) visible.view().at<std::uint8_t>({11, j}) = 0;
  const AttentionOptions options{.mask = Mask::boolean(visible), .sinks = sinks};
  const MovingArrays clean({2, 30, 16}, {1, 140, 16}, 24);
  MovingArrays poisoned = clean;
  put(poisoned.q, {1, 11, 3}, testing::kNan);
  put(poisoned.tq, {0, 11, 3}, testing::kInfinity);
  put(poisoned.grad_out, {0, 11, 3}, testing::kNan);
  testing::expect_same(double_backward(clean, options), double_backward(poisoned, options));
}

TEST_P(AttentionDoubleBackward, EachGradientAloneHasTheBitsOfAllTogether) {
  const MovingArrays a({2, 70, 16}, {1, 1100, 16}, 8);
  const testing::SecondGradients all = double_backward(a);
  const testing::Forward kept = testing::forward(a.q, a.k, a.v, {});
  testing::SecondGradients alone{filled(a.q.shape(), 7), filled(a.k.shape(), 7), filled(a.v.shape(), 7),
                                 filled(a.grad_out.shape(), 7)};
  const auto differentiate = [&](const AttentionSecondGradients& wish) {
    attention_double_backward(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, a.tangents(), {.threads = 2},
                              wish);
  };
  differentiate({.query = alone.query});
  differentiate({.key = alone.key});
  differentiate({.value = alone.value});
  differentiate({.grad_out = alone.grad_out});
  differentiate({});
  testing::expect_same(all, alone);
}

// It is linear in the tangents.
TEST_P(AttentionDoubleBackward, WhatIsNotGivenIsZero) {
  const MovingArrays a({20, 8}, {33, 8}, 5, Dtype::f64);
  const testing::Forward kept = testing::forward(a.q, a.k, a.v, {});
  const auto along = [&](const AttentionTangents& tangents) {
    Tensor query = filled(a.q.shape(), testing::kNan, Dtype::f64), key = filled(a.k.shape(), testing::kNan, Dtype::f64);
    attention_double_backward(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, tangents, {},
                              {.query = query, .key = key});
    std::vector<double> both = testing::values(query);
    for (const double number : testing::values(key)) both.push_back(number);
    return both;
  };
  const std::vector<double> of_q = along({.query = a.tq}), of_k = along({.key = a.tk}), of_v = along({.value = a.tv});
  const std::vector<double> of_all = along(a.tangents());
  for (std::size_t i = 0; i < of_all.size(); ++i) ASSERT_NEAR(of_q[i] + of_k[i] + of_v[i], of_all[i], 1e-12);
  for (const double number : along({})) ASSERT_EQ(number, 0);
}

TEST_P(AttentionDoubleBackward, EmptySizes) {
  for (const Dims& size : {Dims{0, 2, 3, 4}, Dims{1, 0, 3, 4}, Dims{1, 2, 0, 4}, Dims{1, 2, 3, 0}}) {
    // [batch, heads, q_len, k_len]
    const MovingArrays a({size[0], size[1], size[2], 8}, {size[0], 1, size[3], 8}, 8);
    const testing::SecondGradients second = double_backward(a);
    for (const Tensor* gradient : {&second.query, &second.key, &second.value, &second.grad_out}) {
      expect_zeros(*gradient);
    }
  }
}

struct Rule {
  const char* fragment;
  std::function<void(MovingArrays&, testing::SecondGradients&, AttentionOptions&)> break_it;
};

TEST(AttentionDoubleBackwardArguments, EachRuleIsNamed) {
  using testing::SecondGradients;
  const Rule rules[] = {
      {"grad_out must be [2, 5, 3], got [2, 5, 8]",
       [](MovingArrays& a, SecondGradients&, AttentionOptions&) { a.grad_out = filled({2, 5, 8}, 1); }},
      {"the tangent of key must be [1, 6, 8], got [2, 6, 8]",
       [](MovingArrays& a, SecondGradients&, AttentionOptions&) { a.tk = filled({2, 6, 8}, 1); }},
      {"the gradient of value must be [1, 6, 3], got [2, 6, 3]",
       [](MovingArrays&, SecondGradients& g, AttentionOptions&) { g.value = filled({2, 6, 3}, 7); }},
      {"the gradient of query is f64; for f32 inputs it must be f32",
       [](MovingArrays&, SecondGradients& g, AttentionOptions&) { g.query = convert(g.query, Dtype::f64); }},
      {"the gradient of grad_out must be [2, 5, 3], got [2, 4, 3]",
       [](MovingArrays&, SecondGradients& g, AttentionOptions&) { g.grad_out = filled({2, 4, 3}, 7); }},
      {"attention_double_backward: soft_cap must be 0",
       [](MovingArrays&, SecondGradients&, AttentionOptions& o) { o.soft_cap = 3; }},
      {"attention_double_backward: dropout must be off",
       [](MovingArrays&, SecondGradients&, AttentionOptions& o) { o.dropout.p = 0.5; }},
  };
  for (const Rule& rule : rules) {
    SCOPED_TRACE(rule.fragment);
    MovingArrays a({2, 5, 8}, {1, 6, 8}, 3);
    SecondGradients g{filled({2, 5, 8}, 7), filled({1, 6, 8}, 7), filled({1, 6, 3}, 7), filled({2, 5, 3}, 7)};
    AttentionOptions options;
    rule.break_it(a, g, options);
    const Tensor out = filled({2, 5, 3}, 1), log_sum_exp = filled({2, 5}, 1);
    try {
      attention_double_backward(a.q, a.k, a.v, out, log_sum_exp, a.grad_out, a.tangents(), options,
                                {.query = g.query, .key = g.key, .value = g.value, .grad_out = g.grad_out});
      ADD_FAILURE() << "was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(rule.fragment), std::string::npos) << error.what();
    }
    for (const Tensor* place : {&g.query, &g.key, &g.value, &g.grad_out}) {
      for (const double number : testing::values(*place)) ASSERT_EQ(number, 7);
    }
  }
}

}  // namespace
}  // namespace qkv
