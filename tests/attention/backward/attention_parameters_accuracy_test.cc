// How far the gradients of parameters may be from the double reference: never more than three times as far as plain
// loops in float. Those of queries, keys and values: attention_backward_accuracy_test.cc.
#include <fmt/format.h>

#include <functional>

#include "attention/backward/attention_backward_testing.h"
#include "attention/plain_float.h"
#include "reference/attention_backward.h"

namespace qkv {
namespace {

using testing::dot;
using testing::expect_within_three_times;
using testing::normal;
using testing::row;

QKV_ON_EACH_TARGET(AttentionParametersAccuracy);

// One head: matrices [length, size].
struct Arrays {
  Arrays(std::int64_t q_len, std::int64_t k_len, std::int64_t head_dim, std::int64_t value_dim) {
    Random random(1);
    q = normal(random, {q_len, head_dim}), k = normal(random, {k_len, head_dim});
    v = normal(random, {k_len, value_dim}), grad_out = normal(random, {q_len, value_dim});
  }
  Tensor q, k, v, grad_out;
};

// The obvious float computation: each(i, j, gradient of the logit) for every pair, row by row, and of_sink(its
// gradient) for every row, from logit(i, j) and, perhaps, the logit of a sink. Returns the largest grad_out . value.
float differentiate_plainly(const Arrays& a, const std::function<float(std::int64_t, std::int64_t)>& logit, float sink,
                            const std::function<void(std::int64_t, std::int64_t, float)>& each,
                            const std::function<void(float)>& of_sink) {
  const std::int64_t k_len = a.k.size(0), value_dim = a.v.size(1);
  std::vector<float> weights(static_cast<std::size_t>(k_len)), grads(weights.size());
  float largest = 0;
  for (std::int64_t i = 0; i < a.q.size(0); ++i) {
    float maximum = sink, mean = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      maximum = std::max(maximum, weights[j] = logit(i, static_cast<std::int64_t>(j)));
    }
    float sum = std::exp(sink - maximum);
    for (float& weight : weights) sum += weight = std::exp(weight - maximum);
    for (std::size_t j = 0; j < weights.size(); ++j) {
      grads[j] = dot(row(a.grad_out, i), row(a.v, static_cast<std::int64_t>(j)), value_dim);
      largest = std::max(largest, std::abs(grads[j]));
      mean += (weights[j] /= sum) * grads[j];
    }
    for (std::size_t j = 0; j < weights.size(); ++j) {
      each(i, static_cast<std::int64_t>(j), weights[j] * (grads[j] - mean));
    }
    of_sink(-std::exp(sink - maximum) / sum * mean);
  }
  return largest;
}

TEST_P(AttentionParametersAccuracy, BiasesTablesSlopesAndSinks) {
  Random random(2);
  for (const auto& [q_len, k_len] : {std::pair<std::int64_t, std::int64_t>{300, 300}, {33, 1500}, {7, 65}}) {
    SCOPED_TRACE(fmt::format("{} x {}", q_len, k_len));
    const Arrays a(q_len, k_len, 32, 48);
    const std::int64_t reach = 40;
    const Tensor whole = normal(random, {q_len, k_len}), of_keys = normal(random, {k_len});
    const Tensor of_queries = normal(random, {q_len, 1}), table = normal(random, {2 * reach + 1, 1});
    const Tensor slope = Tensor::of<float>({1}, {0.02f}), sink = Tensor::of<float>({1}, {2.5f});
    const AttentionOptions options{.bias = Bias::view(whole) + Bias::view(of_keys) + Bias::view(of_queries) +
                                           Bias::table(RelativeTable::clipped(table)) + Bias::alibi(slope),
                                   .sinks = sink};
    testing::Gradients plain;
    for (const Tensor* bias : {&whole, &of_keys, &of_queries}) plain.bias.push_back(Tensor::zeros(bias->shape()));
    plain.tables.push_back(Tensor::zeros(table.shape()));
    plain.alibi_slopes.push_back(Tensor::zeros({1}));
    plain.sinks = Tensor::zeros({1});
    const auto bucket = [&](std::int64_t i, std::int64_t j) { return std::clamp(j - i, -reach, reach) + reach; };
    const auto distance = [](std::int64_t i, std::int64_t j) { return static_cast<float>(std::abs(i - j)); };
    const auto logit = [&](std::int64_t i, std::int64_t j) {
      float sum = dot(row(a.q, i), row(a.k, j), 32) / std::sqrt(32.0f);
      sum += row(whole, i)[j];
      sum += of_keys.data<float>()[j];
      sum += of_queries.data<float>()[i];
      sum -= slope.data<float>()[0] * distance(i, j);
      return sum + table.data<float>()[bucket(i, j)];
    };
    const auto each = [&](std::int64_t i, std::int64_t j, float gradient) {
      plain.bias[0].view().at<float>({i, j}) = gradient;
      plain.bias[1].data<float>()[j] += gradient;
      plain.bias[2].data<float>()[i] += gradient;
      plain.tables[0].data<float>()[bucket(i, j)] += gradient;
      plain.alibi_slopes[0].data<float>()[0] -= gradient * distance(i, j);
    };
    const double term = differentiate_plainly(a, logit, sink.data<float>()[0], each,
                                              [&](float gradient) { plain.sinks.data<float>()[0] += gradient; });
    const reference::AttentionGradients exact = reference::attention_backward(a.q, a.k, a.v, a.grad_out, options);
    const testing::Gradients own = testing::backward(a.q, a.k, a.v, a.grad_out, options);
    expect_within_three_times("bias", own.bias[0], plain.bias[0], exact.bias[0]);
    expect_within_three_times("bias of keys", own.bias[1], plain.bias[1], exact.bias[1]);
    // Its gradient is that of the sink alone: of the rest, sums of weight * (grad_out . value - their mean), nothing is
    // left but the rounding of the products.
    expect_within_three_times("bias of queries", own.bias[2], plain.bias[2], exact.bias[2], term);
    expect_within_three_times("table", own.tables[0], plain.tables[0], exact.tables[0]);
    expect_within_three_times("slopes", own.alibi_slopes[0], plain.alibi_slopes[0], exact.alibi_slopes[0]);
    expect_within_three_times("sinks", own.sinks, plain.sinks, exact.sinks);
  }
}

// The parameters of a score, in float and by the kernels.
struct ScoreParts {
  Tensor w_query, w_key, v;
};

void expect_score_gradients(const char* name, const Arrays& a, const Score& score, const ScoreParts& plain) {
  SCOPED_TRACE(name);
  const AttentionOptions options{.score = score};
  const reference::AttentionGradients exact = reference::attention_backward(a.q, a.k, a.v, a.grad_out, options);
  const testing::Forward kept = testing::forward(a.q, a.k, a.v, options);
  ScoreParts own;
  const auto place = [](const TensorView& like, Tensor& tensor) -> MutableTensorView {
    if (!like) return {};
    return tensor = testing::filled(like.shape(), testing::kNan);
  };
  attention_backward(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, options,
                     {.score = {.w_query = place(score.w_query(), own.w_query),
                                .w_key = place(score.w_key(), own.w_key),
                                .v = place(score.v(), own.v)}});
  expect_within_three_times("w_query", own.w_query, plain.w_query, exact.score.w_query);
  if (score.w_key()) expect_within_three_times("w_key", own.w_key, plain.w_key, exact.score.w_key);
  if (score.v()) expect_within_three_times("v", own.v, plain.v, exact.score.v);
}

constexpr float kNoSink = -std::numeric_limits<float>::infinity();

TEST_P(AttentionParametersAccuracy, ParametersOfScores) {
  constexpr std::int64_t kDim = 24, kHidden = 9;
  for (const auto& [q_len, k_len] : {std::pair<std::int64_t, std::int64_t>{30, 200}, {5, 1100}}) {
    SCOPED_TRACE(fmt::format("{} x {}", q_len, k_len));
    const Arrays a(q_len, k_len, kDim, 16);
    Random random(3);
    const Tensor w_query = normal(random, {kHidden, kDim}, Dtype::f32, 0.2);
    const Tensor w_key = normal(random, {kHidden, kDim}, Dtype::f32, 0.2), factors = normal(random, {kHidden});
    const Tensor middle = normal(random, {kDim, kDim}, Dtype::f32, 0.05);
    const auto hidden = [&](std::int64_t i, std::int64_t j, std::int64_t h) {
      return std::tanh(dot(row(w_query, h), row(a.q, i), kDim) + dot(row(w_key, h), row(a.k, j), kDim));
    };
    ScoreParts additive{Tensor::zeros(w_query.shape()), Tensor::zeros(w_key.shape()), Tensor::zeros({kHidden})};
    differentiate_plainly(
        a,
        [&](std::int64_t i, std::int64_t j) {
          float sum = 0;
          for (std::int64_t h = 0; h < kHidden; ++h) sum += factors.data<float>()[h] * hidden(i, j, h);
          return sum;
        },
        kNoSink,
        [&](std::int64_t i, std::int64_t j, float gradient) {
          for (std::int64_t h = 0; h < kHidden; ++h) {
            const float value = hidden(i, j, h);
            const float slope = gradient * factors.data<float>()[h] * (1 - value * value);
            additive.v.data<float>()[h] += gradient * value;
            for (std::int64_t c = 0; c < kDim; ++c) {
              additive.w_query.data<float>()[h * kDim + c] += slope * row(a.q, i)[c];
              additive.w_key.data<float>()[h * kDim + c] += slope * row(a.k, j)[c];
            }
          }
        },
        [](float) {});
    expect_score_gradients("additive", a, Score::additive(w_query, w_key, factors), additive);

    ScoreParts joined{Tensor::zeros({kHidden, 2 * kDim}), {}, additive.v};
    Tensor w_joined = Tensor::zeros({kHidden, 2 * kDim});
    for (std::int64_t h = 0; h < kHidden; ++h) {
      const auto join = [&](const Tensor& left, const Tensor& right, Tensor& to) {
        std::copy_n(row(left, h), kDim, to.data<float>() + h * 2 * kDim);
        std::copy_n(row(right, h), kDim, to.data<float>() + (2 * h + 1) * kDim);
      };
      join(w_query, w_key, w_joined);
      join(additive.w_query, additive.w_key, joined.w_query);
    }
    expect_score_gradients("concat", a, Score::concat(w_joined, factors), joined);

    ScoreParts bilinear{Tensor::zeros({kDim, kDim}), {}, {}};
    differentiate_plainly(
        a,
        [&](std::int64_t i, std::int64_t j) {
          float sum = 0;
          for (std::int64_t c = 0; c < kDim; ++c) sum += row(a.q, i)[c] * dot(row(middle, c), row(a.k, j), kDim);
          return sum;
        },
        kNoSink,
        [&](std::int64_t i, std::int64_t j, float gradient) {
          for (std::int64_t c = 0; c < kDim; ++c) {
            for (std::int64_t e = 0; e < kDim; ++e) {
              bilinear.w_query.data<float>()[c * kDim + e] += gradient * row(a.q, i)[c] * row(a.k, j)[e];
            }
          }
        },
        [](float) {});
    expect_score_gradients("bilinear", a, Score::bilinear(middle), bilinear);
  }
}

}  // namespace
}  // namespace qkv
