// The forward-mode derivative: its error, its bits, what masks hide, and what is refused.
#include <functional>

#include "attention/tangent/attention_tangents_testing.h"
#include "qkv/error.h"
#include "reference/attention_tangents.h"

namespace qkv {
namespace {

using testing::filled;
using testing::jvp;
using testing::MovingArrays;
using testing::put;

QKV_ON_EACH_TARGET(AttentionJvp);

// The obvious float computation over matrices [length, size].
Tensor plain_float(const MovingArrays& a, bool causal) {
  const std::int64_t q_len = a.q.size(0), value_dim = a.v.size(1);
  Tensor out = Tensor::zeros({q_len, value_dim});
  for (std::int64_t i = 0; i < q_len; ++i) {
    const testing::PlainRow plain = testing::plain_row(a, i, causal);
    for (std::size_t j = 0; j < plain.weights.size(); ++j) {
      const float *value = testing::row(a.v, static_cast<std::int64_t>(j)),
                  *tangent = testing::row(a.tv, static_cast<std::int64_t>(j));
      for (std::int64_t c = 0; c < value_dim; ++c) {
        out.data<float>()[i * value_dim + c] +=
            plain.weights[j] * ((plain.slopes[j] - plain.mean) * value[c] + tangent[c]);
      }
    }
  }
  return out;
}

constexpr testing::PlainShape kShapes[] = {{48, 128, 64, 64, 1}, {300, 300, 32, 32, 1, true}, {20, 1023, 128, 96, 4},
                                           {9, 129, 256, 8, 8},  {17, 65, 1, 3, 8},           {12, 3000, 64, 32, 2},
                                           {1, 1, 4, 4, 1}};

TEST_P(AttentionJvp, FloatStaysWithinThreeTimesThePlainError) {
  for (const testing::PlainShape& shape : kShapes) {
    const MovingArrays a({shape.q_len, shape.head_dim}, {shape.k_len, shape.head_dim}, shape.value_dim, Dtype::f32,
                         shape.spread);
    const AttentionOptions options{.mask = shape.causal ? Mask::causal() : Mask()};
    const Tensor exact = reference::attention_jvp(a.q, a.k, a.v, a.tangents(), options).out;
    // A sum of 65 terms at head size 1 came to 2.03 times.
    testing::expect_within_three_times(describe(shape), jvp(a, options).out, plain_float(a, shape.causal), exact);
  }
}

// <grad_out, tangent of out> = <gradients, tangents>, in f64.
TEST_P(AttentionJvp, IsTheBackwardPassSeenFromTheOtherSide) {
  for (const Mask& mask : {Mask(), Mask::causal(), Mask::window(40, 3, Align::bottom_right)}) {
    const MovingArrays a({2, 4, 70, 16}, {2, 2, 1100, 16}, 24, Dtype::f64);
    const testing::Gradients gradients = testing::backward(a.q, a.k, a.v, a.grad_out, {.mask = mask});
    const auto dot = [](const Tensor& x, const Tensor& y) {
      double sum = 0;
      for (std::int64_t i = 0; i < x.element_count(); ++i) sum += x.data<double>()[i] * y.data<double>()[i];
      return sum;
    };
    const double forward = dot(a.grad_out, jvp(a, {.mask = mask}).out);
    const double backward = dot(gradients.query, a.tq) + dot(gradients.key, a.tk) + dot(gradients.value, a.tv);
    // Sums of 13,440 and 161,600 terms near 1, which cancel to a few hundred.
    EXPECT_NEAR(forward, backward, 1e-10 * std::max(1.0, std::abs(backward)));
  }
}

TEST_P(AttentionJvp, AnyNumberOfThreads) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const MovingArrays a({1, 4, 130, 16}, {1, 2, 700, 16}, 8, dtype);
    for (const Mask& mask : {Mask(), Mask::causal(Align::bottom_right)}) {
      const testing::Moved one = jvp(a, {.mask = mask, .threads = 1});
      for (const int threads : {2, 3, 4, 7, 16}) {
        SCOPED_TRACE(threads);
        testing::expect_same(one, jvp(a, {.mask = mask, .threads = threads}));
      }
    }
  }
}

// Each query alone, cropped or in a batch.
TEST_P(AttentionJvp, ARowDoesNotDependOnItsNeighbours) {
  const MovingArrays all({2, 70, 16}, {2, 150, 16}, 8);
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {150, 97});
  const auto in_batch = [](const Tensor& x) { return Tensor::copy(x.view().reshape({2, 1, x.size(1), x.size(2)})); };
  MovingArrays batch = all;
  for (Tensor* x : {&batch.q, &batch.k, &batch.v, &batch.tq, &batch.tk, &batch.tv, &batch.grad_out}) *x = in_batch(*x);
  const testing::Moved whole = jvp(batch, {.mask = Mask::causal() & Mask::lengths(lengths)});
  MovingArrays second = all;
  const auto crop = [](Tensor& x, std::int64_t begin, std::int64_t end) {
    x = Tensor::copy(x.view().slice(0, 1, 2).slice(1, begin, end));
  };
  for (Tensor* x : {&second.k, &second.v, &second.tk, &second.tv}) crop(*x, 0, 97);
  for (Tensor* x : {&second.q, &second.tq, &second.grad_out}) crop(*x, 5, 69);
  const testing::Moved part = jvp(second, {.mask = Mask::window(1000, 5)});
  EXPECT_TRUE(testing::same_bits(part.out, whole.out.view().select(0, 1).slice(1, 5, 69)));
}

TEST_P(AttentionJvp, HiddenKeysAndRowsWithoutKeys) {
  Tensor visible = filled({30, 140}, 1, Dtype::u8);
  for (std::int64_t i = 0; i < 30; ++i) {
    for (const std::int64_t j : {0, 70, 139}) visible.view().at<std::uint8_t>({i, j}) = 0;
  }
  for (std::int64_t j = 0; j < 140; ++j) visible.view().at<std::uint8_t>({11, j}) = 0;
  const AttentionOptions options{.mask = Mask::boolean(visible)};
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const MovingArrays clean({2, 30, 16}, {1, 140, 16}, 24, dtype);
    const testing::Moved wanted = jvp(clean, options);
    for (const double number : testing::values(wanted.out.view().select(1, 11))) ASSERT_EQ(number, 0);
    for (const double number : testing::values(wanted.log_sum_exp.view().select(1, 11))) ASSERT_EQ(number, 0);
    for (const double poison : {testing::kNan, testing::kInfinity}) {
      MovingArrays poisoned = clean;
      for (const std::int64_t j : {0, 70, 139}) {
        for (Tensor* x : {&poisoned.k, &poisoned.tk, &poisoned.v, &poisoned.tv}) put(*x, {0, j, 5}, poison);
      }
      put(poisoned.q, {1, 11, 3}, poison);
      put(poisoned.tq, {0, 11, 3}, poison);
      testing::expect_same(wanted, jvp(poisoned, options));
    }
    MovingArrays seen = clean;
    put(seen.tv, {0, 3, 2}, testing::kNan);
    EXPECT_TRUE(std::isnan(testing::values(jvp(seen, options).out)[2]));
  }
}

// The sink has all of the weight; 1e30 is far above what a log-sum-exp of this size can tell.
TEST_P(AttentionJvp, RowsOfALargeSinkAloneAreZero) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t k_len : {0, 5}) {
      const MovingArrays a({2, 4, 3, 8}, {2, 4, k_len, 8}, 6, dtype);
      const Tensor sinks = Tensor::of<double>({4}, {-1e30, 1e30, -1e4, 1e4});
      const Tensor hidden = Tensor::zeros({1, 1, 1, k_len}, Dtype::boolean);
      const testing::Moved moved = jvp(a, {.mask = Mask::boolean(hidden), .sinks = sinks});
      for (const Tensor* tensor : {&moved.out, &moved.log_sum_exp}) {
        for (const double value : testing::values(*tensor)) EXPECT_EQ(value, 0);
      }
    }
  }
}

TEST_P(AttentionJvp, WhatIsNotGivenIsZero) {
  const MovingArrays a({20, 8}, {33, 8}, 5, Dtype::f64);
  const testing::Forward kept = testing::forward(a.q, a.k, a.v, {});
  const auto along = [&](const AttentionTangents& tangents) {
    Tensor out = filled(kept.out.shape(), testing::kNan, Dtype::f64);
    attention_jvp(a.q, a.k, a.v, kept.out, kept.log_sum_exp, tangents, {}, {.out = out});
    return testing::values(out);
  };
  const std::vector<double> of_q = along({.query = a.tq}), of_k = along({.key = a.tk}), of_v = along({.value = a.tv});
  const std::vector<double> of_all = along(a.tangents());
  for (std::size_t i = 0; i < of_all.size(); ++i) ASSERT_NEAR(of_q[i] + of_k[i] + of_v[i], of_all[i], 1e-13);
  for (const double number : along({})) ASSERT_EQ(number, 0);
}

TEST_P(AttentionJvp, EmptySizes) {
  for (const Dims& size : {Dims{0, 2, 3, 4}, Dims{1, 0, 3, 4}, Dims{1, 2, 0, 4}, Dims{1, 2, 3, 0}}) {
    // [batch, heads, q_len, k_len]
    const MovingArrays a({size[0], size[1], size[2], 8}, {size[0], 1, size[3], 8}, 8);
    for (const double number : testing::values(jvp(a).out)) ASSERT_EQ(number, 0) << to_string(size);
  }
}

struct Rule {
  const char* fragment;
  std::function<void(MovingArrays&, AttentionOptions&)> break_it;
};

TEST(AttentionJvpArguments, EachRuleIsNamed) {
  static const Tensor w = filled({8, 8}, 1);
  const Rule rules[] = {
      {"the tangent of query must be [2, 5, 8], got [2, 5, 3]",
       [](MovingArrays& a, AttentionOptions&) { a.tq = filled({2, 5, 3}, 1); }},
      {"the tangent of key must be [1, 6, 8], got [2, 6, 8]",
       [](MovingArrays& a, AttentionOptions&) { a.tk = filled({2, 6, 8}, 1); }},
      {"the tangent of value is f64; for f32 inputs it must be f32",
       [](MovingArrays& a, AttentionOptions&) { a.tv = convert(a.tv, Dtype::f64); }},
      {"attention_jvp: query has type bf16; it must be f32 or f64",
       [](MovingArrays& a, AttentionOptions&) {
         for (Tensor* x : {&a.q, &a.k, &a.v}) *x = convert(*x, Dtype::bf16);
       }},
      {"attention_jvp: soft_cap must be 0", [](MovingArrays&, AttentionOptions& o) { o.soft_cap = 3; }},
      {"attention_jvp: dropout must be off", [](MovingArrays&, AttentionOptions& o) { o.dropout.p = 0.5; }},
      {"attention_jvp: the score must be dot or scaled dot",
       [](MovingArrays&, AttentionOptions& o) { o.score = Score::bilinear(w); }},
      {"attention_jvp: logit functions are not supported",
       [](MovingArrays&, AttentionOptions& o) {
         o.logit_function = logit_function([](auto logit, const Pair&) { return logit; });
       }},
      {"attention_jvp: threads must be 0", [](MovingArrays&, AttentionOptions& o) { o.threads = -1; }},
  };
  for (const Rule& rule : rules) {
    SCOPED_TRACE(rule.fragment);
    MovingArrays a({2, 5, 8}, {1, 6, 8}, 3);
    AttentionOptions options;
    rule.break_it(a, options);
    const Tensor out = filled({2, 5, 3}, 1), log_sum_exp = filled({2, 5}, 1);
    Tensor place = filled({2, 5, 3}, 7);
    try {
      attention_jvp(a.q, a.k, a.v, out, log_sum_exp, a.tangents(), options, {.out = place});
      ADD_FAILURE() << "was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(rule.fragment), std::string::npos) << error.what();
    }
    for (const double number : testing::values(place)) ASSERT_EQ(number, 7);
  }
}

TEST_P(AttentionJvp, StopToken) {
  const MovingArrays a({2, 300, 8}, {1, 60, 8}, 3);
  std::stop_source source;
  const testing::Forward kept = testing::forward(a.q, a.k, a.v, {});
  source.request_stop();
  Tensor place = filled({2, 300, 3}, 7);
  EXPECT_THROW(attention_jvp(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.tangents(),
                             {.threads = 2, .stop = source.get_token()}, {.out = place}),
               Stopped);
}

}  // namespace
}  // namespace qkv
