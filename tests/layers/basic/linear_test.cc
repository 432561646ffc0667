// Linear against a sum written out; rows of any rank and stride; the bag of weights that layers are built from.
#include "qkv/layers/linear.h"

#include "attention/attention_testing.h"
#include "jacobian.h"
#include "qkv/error.h"

namespace qkv {
namespace {

Weights weights_of(Dtype dtype = Dtype::f32) {
  return Weights(
      {{"a.weight", Tensor::of<float>({2, 3}, {1, 2, 3, -4, 5, 6})}, {"a.bias", Tensor::of<float>({2}, {10, 20})}},
      "file", dtype);
}

TEST(Linear, SumsWrittenOut) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    Weights weights = weights_of(dtype);
    const Linear linear({.in = 3, .out = 2}, weights, "a.");
    weights.expect_empty();
    const Tensor x = convert(Tensor::of<float>({2, 1, 3}, {1, 0, 2, -1, 1, 1}), dtype);
    const Tensor expected = convert(Tensor::of<float>({2, 1, 2}, {17, 28, 14, 35}), dtype);
    EXPECT_TRUE(testing::same_bits(linear.forward(x), expected));
    // The same rows with other numbers between them, and as columns of a transposed matrix.
    Tensor wide = Tensor::zeros({2, 7}, dtype);
    convert(x.view().reshape({2, 3}), wide.view().slice(1, 2, 5));
    const Tensor wide_result = linear.forward(std::as_const(wide).view().slice(1, 2, 5));
    EXPECT_EQ(wide_result.shape(), (Dims{2, 2}));
    EXPECT_EQ(testing::difference(wide_result, expected), 0.0);
    const Tensor columns = Tensor::copy(x.view().reshape({2, 3}).transpose(0, 1));
    EXPECT_EQ(testing::difference(linear.forward(columns.view().transpose(0, 1)), expected), 0.0);
    EXPECT_EQ(linear.forward(Tensor::zeros({0, 3}, dtype)).shape(), (Dims{0, 2}));
  }
}

TEST(Linear, WithoutBias) {
  Weights weights = weights_of();
  const Linear linear({.in = 3, .out = 2, .bias = false}, weights, "a.");
  EXPECT_TRUE(testing::same_bits(linear.forward(Tensor::of<float>({3}, {1, 1, 1})), Tensor::of<float>({2}, {6, 7})));
  EXPECT_THROW(weights.expect_empty(), FormatError);
  weights.ignore("a.bias");
  weights.expect_empty();
}

TEST(Linear, RefusesWhatDoesNotFit) {
  Weights weights = weights_of();
  EXPECT_THROW(Linear({.in = 0, .out = 2}, weights, "a."), std::invalid_argument);
  EXPECT_THROW(Linear({.in = 2, .out = 3}, weights, "a."), FormatError);
  EXPECT_THROW(Linear({.in = 3, .out = 2}, weights, "b."), FormatError);
  Linear linear({.in = 3, .out = 2}, weights, "a.");
  EXPECT_THROW(Linear({.in = 3, .out = 2}, weights, "a."), FormatError);  // taken before
  EXPECT_THROW(linear.forward(Tensor::zeros({2, 2})), std::invalid_argument);
  EXPECT_THROW(linear.forward(Tensor::zeros({2, 3}, Dtype::f64)), std::invalid_argument);
  EXPECT_THROW(Weights({}, "file", Dtype::f16), std::invalid_argument);
  testing::want_gradients(linear);
  const Tensor x = Tensor::zeros({4, 3});
  Tensor grad_out = Tensor::zeros({4, 2});
  EXPECT_THROW(linear.backward(x, Tensor::zeros({3, 2})), std::invalid_argument);
  EXPECT_THROW(linear.backward(x, x), std::invalid_argument);
  EXPECT_THROW(linear.backward(x, grad_out, grad_out), std::invalid_argument);
}

TEST(Weights, ConvertsHalfPrecision) {
  Weights weights({{"w", convert(Tensor::of<float>({2}, {0.5f, -3}), Dtype::bf16)}});
  EXPECT_TRUE(testing::same_bits(weights.take("w", {2}), Tensor::of<float>({2}, {0.5f, -3})));
}

}  // namespace
}  // namespace qkv
