// The specifications: gradients against finite differences of attention, forward-mode derivative and double backward
// against those of attention and of its gradients, for every option, and numbers by hand.
#include "reference/attention.h"

#include "attention/tangent/attention_tangents_testing.h"
#include "jacobian.h"
#include "qkv/error.h"

namespace qkv {
namespace {

using reference::AttentionGradients;
using testing::MovingArrays;
using testing::normal;

// 4 query heads over 2 key/value heads, sizes 5 and 3.
MovingArrays padded() { return {{2, 4, 5, 5}, {2, 2, 7, 5}, 3, Dtype::f64}; }

// Tensors, and the gradients of <grad_out, out> that the reference gives for them.
using Pairs = std::vector<std::pair<Tensor*, const Tensor*>>;

template <class List>
void expect_gradients(const MovingArrays& a, const AttentionOptions& options, const List& list) {
  const auto loss = [&] { return testing::dot(reference::attention(a.q, a.k, a.v, options).out, a.grad_out); };
  const AttentionGradients given = reference::attention_backward(a.q, a.k, a.v, a.grad_out, options);
  for (const auto& [tensor, gradient] : list(given)) testing::expect_gradient(loss, *tensor, *gradient);
}

// Of q, k and v, which are put back.
void expect_gradients_of_inputs(MovingArrays a, const AttentionOptions& options) {
  expect_gradients(a, options, [&](const AttentionGradients& given) {
    return Pairs{{&a.q, &given.query}, {&a.k, &given.key}, {&a.v, &given.value}};
  });
}

TEST(ReferenceAttentionBackward, ParametersOfBiasAndSinks) {
  Random random(4);
  Tensor clipped = normal(random, {5, 4}, Dtype::f64), t5 = normal(random, {8, 4}, Dtype::f64);
  Tensor swin = normal(random, {45, 4}, Dtype::f64), sinks = normal(random, {4}, Dtype::f64);
  Tensor of_heads = normal(random, {4}, Dtype::f64), of_all = normal(random, {2, 4}, Dtype::f64);
  const AttentionOptions options{.mask = Mask::window(3, 2, Align::top_left),
                                 .bias = Bias::clipped(clipped) + Bias::t5(t5, {.max_distance = 5}) +
                                         Bias::swin(swin, 3, 5) + Bias::alibi(of_heads) + Bias::alibi(of_all),
                                 .soft_cap = 2,
                                 .sinks = sinks};
  expect_gradients(padded(), options, [&](const AttentionGradients& given) {
    return Pairs{{&clipped, &given.tables[0]},        {&t5, &given.tables[1]},           {&swin, &given.tables[2]},
                 {&of_heads, &given.alibi_slopes[0]}, {&of_all, &given.alibi_slopes[1]}, {&sinks, &given.sinks}};
  });
}

TEST(ReferenceAttentionBackward, BiasesOfEveryBroadcastShape) {
  for (int shape = 0; shape < 16; ++shape) {
    SCOPED_TRACE(shape);
    Random random(4);
    const auto extent = [&](int dim, std::int64_t whole) { return (shape >> dim & 1) != 0 ? 1 : whole; };
    Tensor bias = normal(random, {extent(0, 2), extent(1, 4), extent(2, 5), extent(3, 7)}, Dtype::f64);
    Tensor row = normal(random, {7}, Dtype::f64);
    const AttentionOptions options{.mask = Mask::window(3, 2),
                                   .bias = Bias::view(bias) + Bias::view(row),
                                   .soft_cap = 2,
                                   .dropout = {.p = 0.2, .seed = 3}};
    expect_gradients(padded(), options, [&](const AttentionGradients& given) {
      return Pairs{{&bias, &given.bias[0]}, {&row, &given.bias[1]}};
    });
  }
}

// Keys of another size than queries.
TEST(ReferenceAttentionBackward, OtherScores) {
  Random random(5);
  Tensor w_query = normal(random, {3, 5}, Dtype::f64), w_key = normal(random, {3, 4}, Dtype::f64);
  Tensor joined = normal(random, {3, 9}, Dtype::f64), factors = normal(random, {3}, Dtype::f64);
  Tensor middle = normal(random, {5, 4}, Dtype::f64);
  MovingArrays a = padded();
  a.k = normal(random, {2, 2, 7, 4}, Dtype::f64);
  for (const double cap : {0.0, 2.0}) {
    const auto expect = [&](const Score& score, Tensor* w, Tensor* of_key, Tensor* v) {
      const AttentionOptions options{.mask = Mask::window(3, 2), .scale = 0.8, .soft_cap = cap, .score = score};
      expect_gradients_of_inputs(a, options);
      expect_gradients(a, options, [&](const AttentionGradients& given) {
        Pairs pairs{{w, &given.score.w_query}};
        if (of_key != nullptr) pairs.emplace_back(of_key, &given.score.w_key);
        if (v != nullptr) pairs.emplace_back(v, &given.score.v);
        return pairs;
      });
    };
    expect(Score::additive(w_query, w_key, factors), &w_query, &w_key, &factors);
    expect(Score::concat(joined, factors), &joined, nullptr, &factors);
    expect(Score::bilinear(middle), &middle, nullptr, nullptr);
  }
}

TEST(ReferenceAttentionBackward, Packed) {
  const Tensor q_offsets = Tensor::of<std::int32_t>({4}, {0, 3, 3, 5});
  const Tensor k_offsets = Tensor::of<std::int64_t>({4}, {0, 4, 6, 9});
  for (const Mask& mask : {Mask(), Mask::causal(Align::bottom_right)}) {
    expect_gradients_of_inputs(
        MovingArrays({5, 2, 3}, {9, 1, 3}, 4, Dtype::f64),
        {.mask = mask, .dropout = {.p = 0.4}, .offsets_query = q_offsets, .offsets_key = k_offsets});
  }
}

TEST(ReferenceAttentionBackward, WorkedByHand) {
  // Two keys of equal score: weights 1/2, 1/2; grad_out . values = 1, 3; logits' gradients 1/2 (1 - 2), 1/2 (3 - 2).
  const Tensor q = Tensor::of<double>({1, 1}, {2}), k = Tensor::of<double>({2, 1}, {5, 5});
  const Tensor v = Tensor::of<double>({2, 1}, {1, 3}), grad_out = Tensor::of<double>({1, 1}, {1});
  const AttentionGradients given = reference::attention_backward(q, k, v, grad_out);
  EXPECT_EQ(testing::values(given.query), (std::vector<double>{0}));
  EXPECT_EQ(testing::values(given.key), (std::vector<double>{-1, 1}));
  EXPECT_EQ(testing::values(given.value), (std::vector<double>{0.5, 0.5}));
}

// x + step * tangent
Tensor moved(const Tensor& x, const Tensor& tangent, double step) {
  Tensor result = x;
  for (std::int64_t i = 0; i < x.element_count(); ++i) result.data<double>()[i] += step * tangent.data<double>()[i];
  return result;
}

// The slope of attention along the tangents, and the gradients of its gradients, element by element.
void expect_tangents(MovingArrays a, const AttentionOptions& options) {
  const auto at = [&](double step) {
    return reference::attention(moved(a.q, a.tq, step), moved(a.k, a.tk, step), moved(a.v, a.tv, step), options);
  };
  constexpr double kStep = 1e-5;
  const reference::AttentionResult above = at(kStep), below = at(-kStep);
  const reference::OutputTangents given = reference::attention_jvp(a.q, a.k, a.v, a.tangents(), options);
  const auto expect_slope = [](const Tensor& up, const Tensor& down, const Tensor& tangent) {
    const std::vector<double> x = testing::values(up), y = testing::values(down), wanted = testing::values(tangent);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double slope = x[i] == y[i] ? 0 : (x[i] - y[i]) / (2 * kStep);  // also of -infinity
      ASSERT_NEAR(slope, wanted[i], 1e-8 * std::max(1.0, std::abs(wanted[i]))) << "element " << i;
    }
  };
  expect_slope(above.out, below.out, given.out);
  expect_slope(above.log_sum_exp, below.log_sum_exp, given.log_sum_exp);

  const auto loss = [&] {
    const AttentionGradients first = reference::attention_backward(a.q, a.k, a.v, a.grad_out, options);
    return testing::dot(a.tq, first.query) + testing::dot(a.tk, first.key) + testing::dot(a.tv, first.value);
  };
  const reference::SecondGradients second =
      reference::attention_double_backward(a.q, a.k, a.v, a.grad_out, a.tangents(), options);
  testing::expect_gradient(loss, a.q, second.query);
  testing::expect_gradient(loss, a.k, second.key);
  testing::expect_gradient(loss, a.v, second.value);
  testing::expect_gradient(loss, a.grad_out, second.grad_out);
}

TEST(ReferenceAttentionDerivatives, EveryOption) {
  const Tensor slopes = Tensor::of<float>({4}, {0.1f, 0.5f, 0, 1}), sinks = Tensor::of<double>({4}, {0.5, -1, 2, 0});
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {6, 0});
  Random random(2);
  const Tensor bias = normal(random, {2, 1, 5, 7}, Dtype::f64), visible = testing::coin_flips(random, {4, 5, 7}, 0.4);
  const AttentionOptions cases[] = {
      {},
      {.scale = -0.7},
      {.score = Score::dot()},
      {.soft_cap = 1.5},
      {.mask = Mask::causal()},
      {.mask = Mask::causal(Align::bottom_right) & Mask::lengths(lengths)},
      {.mask = Mask::boolean(visible), .bias = Bias::view(bias)},
      {.mask = Mask::window(2, 1), .bias = Bias::alibi(slopes), .sinks = sinks},
      {.dropout = {.p = 0.3, .seed = 1}},
      {.mask = Mask::boolean(visible) & Mask::causal(Align::bottom_right),
       .bias = Bias::view(bias) + Bias::alibi(slopes),
       .scale = 0.9,
       .soft_cap = 2,
       .dropout = {.p = 0.2, .seed = 2}},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(i);
    expect_gradients_of_inputs(padded(), cases[i]);
    if (cases[i].soft_cap == 0 && cases[i].dropout.p == 0) expect_tangents(padded(), cases[i]);
  }
}

TEST(ReferenceAttentionTangents, WorkedByHand) {
  // Two keys of equal logit, weights 1/2. The tangent of the query moves logits by 2 and 4, mean 3, so that the weights
  // move by -1/2 and 1/2, and the output by (3 - 1) / 2.
  const Tensor q = Tensor::of<double>({1, 2}, {0, 0}), k = Tensor::of<double>({2, 2}, {2, 0, 4, 0});
  const Tensor v = Tensor::of<double>({2, 1}, {1, 3}), tq = Tensor::of<double>({1, 2}, {1, 0});
  const reference::OutputTangents given = reference::attention_jvp(q, k, v, {.query = tq}, {.score = Score::dot()});
  EXPECT_EQ(testing::values(given.out), (std::vector<double>{1}));
  EXPECT_EQ(testing::values(given.log_sum_exp), (std::vector<double>{3}));
  // With grad_out 1 the loss is that tangent, t (weights' covariance of k and v): its gradient with respect to the
  // values is the movement of the weights; weights and grad_out . v are alike in both keys but for the sign, so that
  // moving the query changes nothing to first order.
  const Tensor one = Tensor::of<double>({1, 1}, {1});
  const reference::SecondGradients second =
      reference::attention_double_backward(q, k, v, one, {.query = tq}, {.score = Score::dot()});
  EXPECT_EQ(testing::values(second.value), (std::vector<double>{-0.5, 0.5}));
  EXPECT_EQ(testing::values(second.query), (std::vector<double>{0, 0}));
  EXPECT_EQ(testing::values(second.key), (std::vector<double>{-0.5, 0, 0.5, 0}));
  EXPECT_EQ(testing::values(second.grad_out), (std::vector<double>{1}));
}

// The second pair asks for an end, so that the third is never looked at.
TEST(ReferenceAttention, StopsBetweenPairs) {
  std::stop_source source;
  int asked = 0;
  const AttentionOptions options{.logit_function = logit_function([&](double logit, const Pair&) {
                                   if (++asked == 2) source.request_stop();
                                   return logit;
                                 }),
                                 .stop = source.get_token()};
  const Tensor ones = Tensor::zeros({1, 1, 3, 2}, Dtype::f64);
  EXPECT_THROW(reference::attention(ones, ones, ones, options), Stopped);
  EXPECT_EQ(asked, 2);
}

// The helper itself: it finds a gradient that is known, and refuses one that is wrong.
TEST(Jacobian, OfAPolynomial) {
  Tensor x = Tensor::of<double>({2}, {3, -2});
  const auto f = [&] { return x.data<double>()[0] * x.data<double>()[0] * x.data<double>()[1]; };
  testing::expect_gradient(f, x, Tensor::of<double>({2}, {-12, 9}));
  EXPECT_EQ(testing::values(x), (std::vector<double>{3, -2}));
  EXPECT_GT(testing::difference(testing::numeric_gradient(f, x), Tensor::of<double>({2}, {-12, 9.001})), 1e-4);
}

}  // namespace
}  // namespace qkv
