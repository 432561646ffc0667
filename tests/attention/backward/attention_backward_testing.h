// What the tests of attention's gradients share: one call of the forward pass and one of the backward pass.
#pragma once

#include "attention/attention_testing.h"
#include "qkv/attention/attention_backward.h"

namespace qkv::testing {

struct Gradients {
  Tensor query{}, key{}, value{};
  std::vector<Tensor> tables{}, alibi_slopes{};
  Tensor sinks{};
  std::vector<Tensor> bias{};  // of each view
  Tensor score_w_query{}, score_w_key{}, score_v{};
};

// Bitwise.
inline void expect_same(const Gradients& a, const Gradients& b) {
  const auto expect = [](const Tensor& x, const Tensor& y, const char* name, std::size_t index = 0) {
    EXPECT_TRUE(same_bits(x, y)) << "gradient of " << name << " " << index;
  };
  const auto expect_each = [&](const std::vector<Tensor>& x, const std::vector<Tensor>& y, const char* name) {
    ASSERT_EQ(x.size(), y.size()) << name;
    for (std::size_t n = 0; n < x.size(); ++n) expect(x[n], y[n], name, n);
  };
  expect(a.query, b.query, "the queries");
  expect(a.key, b.key, "the keys");
  expect(a.value, b.value, "the values");
  expect_each(a.tables, b.tables, "table");
  expect_each(a.alibi_slopes, b.alibi_slopes, "slopes");
  expect(a.sinks, b.sinks, "the sinks");
  expect_each(a.bias, b.bias, "bias");
  expect(a.score_w_query, b.score_w_query, "the score's w or w_query");
  expect(a.score_w_key, b.score_w_key, "the score's w_key");
  expect(a.score_v, b.score_v, "the score's v");
}

inline Dtype accumulation_of(Dtype storage) { return storage == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

// What the backward pass needs of the forward one.
struct Forward {
  Tensor out, log_sum_exp;
};

inline Forward forward(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options,
                       std::optional<Dtype> out_dtype = std::nullopt) {
  Dims rows, out;
  for (int i = 0; i + 1 < q.rank(); ++i) rows.push_back(q.size(i));
  out = rows;
  out.push_back(v.size(-1));
  Forward result{filled(out, kNan, out_dtype.value_or(q.dtype())), filled(rows, kNan, accumulation_of(q.dtype()))};
  attention(q, k, v, result.out, options, {.log_sum_exp = result.log_sum_exp});
  return result;
}

// The gradients, in tensors that held NaN. `dtype`: of the gradients; unset: that of q.
inline Gradients backward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& grad_out,
                          const AttentionOptions& options = {}, std::optional<Dtype> dtype = std::nullopt,
                          std::optional<Dtype> out_dtype = std::nullopt) {
  const Forward kept = forward(q, k, v, options, out_dtype);
  const Dtype type = dtype.value_or(q.dtype());
  Gradients gradients{filled(q.shape(), kNan, type), filled(k.shape(), kNan, type), filled(v.shape(), kNan, type)};
  AttentionGradients places{.query = gradients.query, .key = gradients.key, .value = gradients.value};
  const auto parameter = [&](const TensorView& like, Tensor& place) -> MutableTensorView {
    return place = filled(like.shape(), kNan, accumulation_of(q.dtype()));
  };
  for (const RelativeTable& table : options.bias.tables()) {
    places.tables.push_back(parameter(table.values(), gradients.tables.emplace_back()));
  }
  for (const TensorView& slopes : options.bias.alibi_slopes()) {
    places.alibi_slopes.push_back(parameter(slopes, gradients.alibi_slopes.emplace_back()));
  }
  for (const TensorView& bias : options.bias.views()) {
    places.bias.push_back(parameter(bias, gradients.bias.emplace_back()));
  }
  if (options.sinks) places.sinks = parameter(options.sinks, gradients.sinks);
  const Score& score = options.score;
  if (score.w_query()) places.score.w_query = parameter(score.w_query(), gradients.score_w_query);
  if (score.w_key()) places.score.w_key = parameter(score.w_key(), gradients.score_w_key);
  if (score.v()) places.score.v = parameter(score.v(), gradients.score_v);
  attention_backward(q, k, v, kept.out, kept.log_sum_exp, grad_out, options, places);
  return gradients;
}

}  // namespace qkv::testing
