// Rows of a table, and their gradients: rows that occur twice add up, the padding row has none.
#include "qkv/layers/embedding.h"

#include "attention/attention_testing.h"
#include "jacobian.h"

namespace qkv {
namespace {

Embedding table(std::optional<std::int32_t> padding = {}) {
  Random random(1);
  Weights weights({{"weight", testing::normal(random, {5, 3}, Dtype::f64)}}, "test", Dtype::f64);
  Embedding embedding({.count = 5, .dim = 3, .padding = padding}, weights);
  testing::want_gradients(embedding);
  return embedding;
}

TEST(Embedding, Gradients) {
  Random random(2);
  const std::vector<std::int32_t> ids{4, 0, 4, 2, 4};
  const Tensor grad_out = testing::normal(random, {5, 3}, Dtype::f64);
  Embedding plain = table(), padded = table(4);
  plain.backward(ids, grad_out);
  padded.backward(ids, grad_out);
  testing::expect_parameter_gradients(plain, [&] { return testing::dot(plain.forward(ids), grad_out); });
  // The padding has none.
  const TensorView expected = plain.weight().gradient, got = padded.weight().gradient;
  EXPECT_TRUE(testing::same_bits(got.slice(0, 0, 4), expected.slice(0, 0, 4)));
  testing::expect_zeros(got.slice(0, 4, 5));
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  Embedding embedding = table();
  const std::vector<std::int32_t> ids{1, 2}, wrong{1, 5}, negative{-1, 0};
  EXPECT_THROW(embedding.forward(wrong), std::invalid_argument);
  EXPECT_THROW(embedding.backward(negative, Tensor::zeros({2, 3}, Dtype::f64)), std::invalid_argument);
  EXPECT_THROW(embedding.backward(ids, Tensor::zeros({1, 3}, Dtype::f64)), std::invalid_argument);
  EXPECT_THROW(embedding.backward(ids, Tensor::zeros({2, 3})), std::invalid_argument);
  EXPECT_THROW(table(5), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
