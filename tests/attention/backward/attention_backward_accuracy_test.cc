// How far gradients may be from the double reference: never more than three times as far as plain loops in float.
#include "attention/backward/attention_backward_testing.h"
#include "attention/plain_float.h"
#include "reference/attention_backward.h"

namespace qkv {
namespace {

// The obvious float computation over matrices [length, size]: every product, sum and exponential rounded to float.
testing::Gradients plain_float(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& grad_out,
                               bool causal) {
  const std::int64_t q_len = query.size(0), k_len = key.size(0), head_dim = query.size(1), value_dim = value.size(1);
  const float *q = query.data<float>(), *k = key.data<float>(), *v = value.data<float>(), *g = grad_out.data<float>();
  testing::Gradients result{Tensor::zeros(query.shape()), Tensor::zeros(key.shape()), Tensor::zeros(value.shape())};
  float *dq = result.query.data<float>(), *dk = result.key.data<float>(), *dv = result.value.data<float>();
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  const auto at = [](std::int64_t j) { return static_cast<std::size_t>(j); };
  for (std::int64_t i = 0; i < q_len; ++i) {
    const std::int64_t keys = causal ? std::min(i + 1, k_len) : k_len;
    std::vector<float> weights(static_cast<std::size_t>(keys)), grads(static_cast<std::size_t>(keys));
    float maximum = -std::numeric_limits<float>::infinity(), sum = 0, mean = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      maximum = std::max(maximum, weights[at(j)] = scale * testing::dot(q + i * head_dim, k + j * head_dim, head_dim));
    }
    for (float& weight : weights) sum += weight = std::exp(weight - maximum);
    for (std::int64_t j = 0; j < keys; ++j) {
      weights[at(j)] /= sum;
      grads[at(j)] = testing::dot(g + i * value_dim, v + j * value_dim, value_dim);
      mean += weights[at(j)] * grads[at(j)];
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      const float slope = weights[at(j)] * (grads[at(j)] - mean) * scale;
      for (std::int64_t c = 0; c < head_dim; ++c) {
        dq[i * head_dim + c] += slope * k[j * head_dim + c];
        dk[j * head_dim + c] += slope * q[i * head_dim + c];
      }
      for (std::int64_t c = 0; c < value_dim; ++c) dv[j * value_dim + c] += weights[at(j)] * g[i * value_dim + c];
    }
  }
  return result;
}

constexpr testing::PlainShape kShapes[] = {{48, 128, 64, 64, 1},    {33, 197, 64, 64, 1}, {300, 300, 32, 32, 1, true},
                                           {20, 1023, 128, 96, 4},  {9, 129, 256, 8, 8},  {17, 65, 1, 3, 8},
                                           {7, 500, 1024, 1024, 1}, {12, 3000, 64, 32, 2}};

QKV_ON_EACH_TARGET(AttentionBackwardAccuracy);

TEST_P(AttentionBackwardAccuracy, FloatStaysWithinThreeTimesThePlainError) {
  for (const testing::PlainShape& shape : kShapes) {
    Random random(1);
    const Tensor q = testing::normal(random, {shape.q_len, shape.head_dim}, Dtype::f32, shape.spread);
    const Tensor k = testing::normal(random, {shape.k_len, shape.head_dim});
    const Tensor v = testing::normal(random, {shape.k_len, shape.value_dim});
    const Tensor grad_out = testing::normal(random, {shape.q_len, shape.value_dim});
    const AttentionOptions options{.mask = shape.causal ? Mask::causal() : Mask()};
    const reference::AttentionGradients exact = reference::attention_backward(q, k, v, grad_out, options);
    const testing::Gradients plain = plain_float(q, k, v, grad_out, shape.causal);
    const testing::Gradients got = testing::backward(q, k, v, grad_out, options);
    SCOPED_TRACE(describe(shape));
    testing::expect_within_three_times("queries", got.query, plain.query, exact.query);
    testing::expect_within_three_times("keys", got.key, plain.key, exact.key);
    testing::expect_within_three_times("values", got.value, plain.value, exact.value);
  }
}

}  // namespace
}  // namespace qkv
