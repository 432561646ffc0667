// How far derivatives may be from the double reference: never more than three times as far as plain loops in float.
#include "attention/tangent/attention_tangents_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::dot;
using testing::expect_within_three_times;
using testing::MovingArrays;
using testing::normal;
using testing::row;

// One query of one head: the softmax of its logits and a sink's, what grad_out makes of each value, and its mean.
struct PlainQuery {
  std::vector<float> weights, products;
  float mean = 0, sink = 0;
  float gradient(std::size_t j) const { return weights[j] * (products[j] - mean); }  // of a logit
};

constexpr float kNoSink = -std::numeric_limits<float>::infinity();

// From logit(key), of so many keys.
template <class Logit>
PlainQuery plain_query(const MovingArrays& a, std::int64_t i, std::size_t keys, const Logit& logit,
                       float sink = kNoSink) {
  PlainQuery plain{std::vector<float>(keys), std::vector<float>(keys)};
  float maximum = sink;
  for (std::size_t j = 0; j < keys; ++j) {
    maximum = std::max(maximum, plain.weights[j] = logit(static_cast<std::int64_t>(j)));
  }
  plain.sink = std::exp(sink - maximum);
  float sum = plain.sink;
  for (float& weight : plain.weights) sum += weight = std::exp(weight - maximum);
  for (std::size_t j = 0; j < keys; ++j) {
    plain.products[j] = dot(row(a.grad_out, i), row(a.v, static_cast<std::int64_t>(j)), a.v.size(1));
    plain.mean += (plain.weights[j] /= sum) * plain.products[j];
  }
  plain.sink /= sum;
  return plain;
}

// To a row of a matrix.
void add(Tensor& to, std::int64_t i, float factor, const float* term) {
  float* sum = to.data<float>() + i * to.size(1);
  for (std::int64_t c = 0; c < to.size(1); ++c) sum[c] += factor * term[c];
}

testing::Derivatives plain_derivatives(const MovingArrays& a, bool causal) {
  const std::int64_t q_len = a.q.size(0), k_len = a.k.size(0), head_dim = a.q.size(1), value_dim = a.v.size(1);
  const auto zeros = [](const Tensor& like) { return Tensor::zeros(like.shape()); };
  testing::Derivatives plain{{zeros(a.q), zeros(a.k), zeros(a.v)}, {zeros(a.grad_out), {}}, {}};
  plain.second = {zeros(a.q), zeros(a.k), zeros(a.v), {}};
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  for (std::int64_t i = 0; i < q_len; ++i) {
    const auto keys = static_cast<std::size_t>(causal ? std::min(i + 1, k_len) : k_len);
    const PlainQuery query =
        plain_query(a, i, keys, [&](std::int64_t j) { return scale * dot(row(a.q, i), row(a.k, j), head_dim); });
    const std::vector<float>& weights = query.weights;
    std::vector<float> slopes(keys), grads(keys);  // of logits along the tangents; of what these make of the loss
    float mean_slope = 0, mean_grad = 0;
    for (std::size_t n = 0; n < keys; ++n) {
      const auto j = static_cast<std::int64_t>(n);
      slopes[n] = scale * (dot(row(a.tq, i), row(a.k, j), head_dim) + dot(row(a.q, i), row(a.tk, j), head_dim));
      mean_slope += weights[n] * slopes[n];
    }
    for (std::size_t n = 0; n < keys; ++n) {
      const float moved_product = dot(row(a.grad_out, i), row(a.tv, static_cast<std::int64_t>(n)), value_dim);
      grads[n] = (slopes[n] - mean_slope) * query.products[n] + moved_product - slopes[n] * query.mean;
      mean_grad += weights[n] * grads[n];
    }
    for (std::size_t n = 0; n < keys; ++n) {
      const auto j = static_cast<std::int64_t>(n);
      const float gradient = scale * query.gradient(n), second = scale * weights[n] * (grads[n] - mean_grad);
      const float moved_weight = weights[n] * (slopes[n] - mean_slope);
      add(plain.first.query, i, gradient, row(a.k, j));
      add(plain.first.key, j, gradient, row(a.q, i));
      add(plain.first.value, j, weights[n], row(a.grad_out, i));
      add(plain.moved.out, i, moved_weight, row(a.v, j));
      add(plain.moved.out, i, weights[n], row(a.tv, j));
      add(plain.second.query, i, gradient, row(a.tk, j));
      add(plain.second.query, i, second, row(a.k, j));
      add(plain.second.key, j, gradient, row(a.tq, i));
      add(plain.second.key, j, second, row(a.q, i));
      add(plain.second.value, j, moved_weight, row(a.grad_out, i));
    }
  }
  return plain;
}

MovingArrays draw(std::int64_t q_len, std::int64_t k_len, std::int64_t head_dim, std::int64_t value_dim,
                  double spread = 1, std::uint64_t seed = 1) {
  Random random(seed);
  const Tensor q = normal(random, {q_len, head_dim}, Dtype::f32, spread), k = normal(random, {k_len, head_dim});
  const Tensor v = normal(random, {k_len, value_dim}), grad_out = normal(random, {q_len, value_dim});
  MovingArrays a(random, q, k, v);
  a.grad_out = grad_out;
  return a;
}

constexpr testing::PlainShape kShapes[] = {{48, 128, 64, 64, 1},    {33, 197, 64, 64, 1},  {300, 300, 32, 32, 1, true},
                                           {20, 1023, 128, 96, 4},  {9, 129, 256, 8, 8},   {17, 65, 1, 3, 8},
                                           {7, 130, 1024, 1024, 1}, {12, 3000, 64, 32, 2}, {1, 1, 4, 4, 1}};

QKV_ON_EACH_TARGET(AttentionDerivativesAccuracy);

TEST_P(AttentionDerivativesAccuracy, OfInputs) {
  for (const testing::PlainShape& shape : kShapes) {
    SCOPED_TRACE(describe(shape));
    // Plain float rounds a logit of one product once; weights that are made of a rounded log-sum-exp again come as
    // close in some draws alone.
    const std::uint64_t seed = shape.head_dim == 1 ? 30 : 1;
    const MovingArrays a = draw(shape.q_len, shape.k_len, shape.head_dim, shape.value_dim, shape.spread, seed);
    const AttentionOptions options{.mask = shape.causal ? Mask::causal() : Mask()};
    const testing::Derivatives plain = plain_derivatives(a, shape.causal), own = testing::differentiate(a, options);
    const Tensor moved = reference::attention_jvp(a.q, a.k, a.v, a.tangents(), options).out;
    expect_within_three_times("output along tangents", own.moved.out, plain.moved.out, moved);
    if (shape.k_len == 1) continue;  // the rest is 0, but for roundings
    const auto first = reference::attention_backward(a.q, a.k, a.v, a.grad_out, options);
    expect_within_three_times("queries", own.first.query, plain.first.query, first.query);
    expect_within_three_times("keys", own.first.key, plain.first.key, first.key);
    expect_within_three_times("values", own.first.value, plain.first.value, first.value);
    const auto second = reference::attention_double_backward(a.q, a.k, a.v, a.grad_out, a.tangents(), options);
    expect_within_three_times("queries, second", own.second.query, plain.second.query, second.query);
    expect_within_three_times("keys, second", own.second.key, plain.second.key, second.key);
    expect_within_three_times("values, second", own.second.value, plain.second.value, second.value);
  }
}

TEST_P(AttentionDerivativesAccuracy, OfBiasesTablesSlopesAndSinks) {
  Random random(8);  // sums that cancel come as close in some draws alone, here too
  for (const auto& [q_len, k_len] : {std::pair<std::int64_t, std::int64_t>{300, 300}, {33, 1500}, {7, 65}}) {
    SCOPED_TRACE(fmt::format("{} x {}", q_len, k_len));
    constexpr std::int64_t kReach = 40, kDim = 32;
    const MovingArrays a = draw(q_len, k_len, kDim, 48);
    const Tensor whole = normal(random, {q_len, k_len}), of_keys = normal(random, {k_len});
    const Tensor of_queries = normal(random, {q_len, 1}), table = normal(random, {2 * kReach + 1, 1});
    const Tensor slope = Tensor::of<float>({1}, {0.02f}), sink = Tensor::of<float>({1}, {2.5f});
    const AttentionOptions options{.bias = Bias::view(whole) + Bias::view(of_keys) + Bias::view(of_queries) +
                                           Bias::clipped(table) + Bias::alibi(slope),
                                   .sinks = sink};
    testing::Gradients plain{.tables = {Tensor::zeros(table.shape())}, .alibi_slopes = {Tensor::zeros({1})}};
    for (const Tensor* bias : {&whole, &of_keys, &of_queries}) plain.bias.push_back(Tensor::zeros(bias->shape()));
    plain.sinks = Tensor::zeros({1});
    float largest = 0;
    for (std::int64_t i = 0; i < q_len; ++i) {
      const auto bucket = [&](std::int64_t j) { return std::clamp(j - i, -kReach, kReach) + kReach; };
      const auto distance = [&](std::int64_t j) { return static_cast<float>(std::abs(i - j)); };
      const auto logit = [&](std::int64_t j) {
        float sum = dot(row(a.q, i), row(a.k, j), kDim) / std::sqrt(static_cast<float>(kDim));
        sum += row(whole, i)[j];
        sum += of_keys.data<float>()[j];
        sum += of_queries.data<float>()[i];
        sum -= slope.data<float>()[0] * distance(j);
        return sum + table.data<float>()[bucket(j)];
      };
      const PlainQuery query = plain_query(a, i, static_cast<std::size_t>(k_len), logit, sink.data<float>()[0]);
      for (std::int64_t j = 0; j < k_len; ++j) {
        const float gradient = query.gradient(static_cast<std::size_t>(j));
        plain.bias[0].view().at<float>({i, j}) = gradient;
        plain.bias[1].data<float>()[j] += gradient;
        plain.bias[2].data<float>()[i] += gradient;
        plain.tables[0].data<float>()[bucket(j)] += gradient;
        plain.alibi_slopes[0].data<float>()[0] -= gradient * distance(j);
      }
      plain.sinks.data<float>()[0] -= query.sink * query.mean;
      for (const float product : query.products) largest = std::max(largest, std::abs(product));
    }
    const reference::AttentionGradients exact = reference::attention_backward(a.q, a.k, a.v, a.grad_out, options);
    const testing::Gradients own = testing::backward(a.q, a.k, a.v, a.grad_out, options);
    expect_within_three_times("bias", own.bias[0], plain.bias[0], exact.bias[0]);
    expect_within_three_times("bias of keys", own.bias[1], plain.bias[1], exact.bias[1]);
    // Its gradient is that of the sink alone: of the rest, sums of weight * (grad_out . value - their mean), nothing is
    // left but the rounding of the products.
    expect_within_three_times("bias of queries", own.bias[2], plain.bias[2], exact.bias[2], largest);
    expect_within_three_times("table", own.tables[0], plain.tables[0], exact.tables[0]);
    expect_within_three_times("slopes", own.alibi_slopes[0], plain.alibi_slopes[0], exact.alibi_slopes[0]);
    expect_within_three_times("sinks", own.sinks, plain.sinks, exact.sinks);
  }
}

}  // namespace
}  // namespace qkv
