// What the tests of attention's gradients share: one call of the forward pass and one of the backward pass.
#pragma once

#include "attention/attention_testing.h"
#include "qkv/attention/attention_backward.h"

namespace qkv::testing {

struct Gradients {
  Tensor query, key, value;
  std::vector<Tensor> tables{}, alibi_slopes{};
  Tensor sinks{};
  std::vector<Tensor> bias{};  // of each view
  Tensor score_w_query{}, score_w_key{}, score_v{};
};

// Bitwise.
inline void expect_same(const Gradients& a, const Gradients& b) {
  EXPECT_TRUE(same_bits(a.query, b.query)) << "gradient of the queries";
  EXPECT_TRUE(same_bits(a.key, b.key)) << "gradient of the keys";
  EXPECT_TRUE(same_bits(a.value, b.value)) << "gradient of the values";
  for (std::size_t i = 0; i < a.tables.size(); ++i) {
    EXPECT_TRUE(same_bits(a.tables[i], b.tables[i])) << "gradient of table " << i;
  }
  for (std::size_t i = 0; i < a.alibi_slopes.size(); ++i) {
    EXPECT_TRUE(same_bits(a.alibi_slopes[i], b.alibi_slopes[i])) << "gradient of slopes " << i;
  }
  EXPECT_TRUE(same_bits(a.sinks, b.sinks)) << "gradient of the sinks";
  ASSERT_EQ(a.bias.size(), b.bias.size());
  for (std::size_t n = 0; n < a.bias.size(); ++n) {
    EXPECT_TRUE(same_bits(a.bias[n], b.bias[n])) << "gradient of bias " << n;
  }
  EXPECT_TRUE(same_bits(a.score_w_query, b.score_w_query)) << "gradient of the score's w or w_query";
  EXPECT_TRUE(same_bits(a.score_w_key, b.score_w_key)) << "gradient of the score's w_key";
  EXPECT_TRUE(same_bits(a.score_v, b.score_v)) << "gradient of the score's v";
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
