// Linear against a sum written out; rows of a table; what layers hold: the bag of weights that they are built from, and
// parameters in panels.
#include "qkv/layers/linear.h"

#include "attention/attention_testing.h"
#include "jacobian.h"
#include "qkv/error.h"
#include "qkv/layers/embedding.h"
#include "qkv/layers/packed_parameter.h"

namespace qkv {
namespace {

using testing::same_bits;

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
    EXPECT_TRUE(same_bits(linear.forward(x), expected));
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
  EXPECT_TRUE(same_bits(linear.forward(Tensor::of<float>({3}, {1, 1, 1})), Tensor::of<float>({2}, {6, 7})));
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
  EXPECT_TRUE(same_bits(weights.take("w", {2}), Tensor::of<float>({2}, {0.5f, -3})));
}

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
  EXPECT_TRUE(same_bits(got.slice(0, 0, 4), expected.slice(0, 0, 4)));
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

Tensor random_tensor(const Dims& shape) {
  Random random(1);
  return testing::normal(random, shape);
}

Tensor visited(const PackedParameter& parameter) {
  Tensor value;
  parameter.visit(
      [&](const std::string& name, const Parameter& own) {
        EXPECT_EQ(name, "weight");
        value = own.value;
      },
      "weight");
  return value;
}

TEST(PackedParameter, IsReadOutOfItsParts) {
  const Tensor value = random_tensor({3, 50, 7});
  const PackedParameter parameter(value, {100, 49, 1});
  EXPECT_FALSE(parameter.is_kept());
  EXPECT_EQ(parameter.own().value.element_count(), 0);
  EXPECT_TRUE(same_bits(visited(parameter), value));
  Tensor storage;
  EXPECT_TRUE(same_bits(parameter.value(storage), value));
  Tensor column = Tensor::uninitialized({7, 1});
  parameter.part(1).unpack(column, 48);  // row 100 + 48 of all
  EXPECT_TRUE(same_bits(column.view().reshape({7}), value.view().reshape({150, 7}).select(0, 148)));
}

TEST(PackedParameter, WithoutPartsIsKept) {
  const Tensor value = random_tensor({5});
  const PackedParameter parameter(value, {});
  EXPECT_TRUE(parameter.is_kept());
  EXPECT_TRUE(same_bits(parameter.own().value, value));
  EXPECT_TRUE(same_bits(visited(parameter), value));
}

TEST(PackedParameter, IsKeptWhileItIsTrained) {
  PackedParameter parameter(random_tensor({20, 3}), {20});
  EXPECT_FALSE(parameter.gradient());
  parameter.update([](const std::string&, Parameter& own) { own.want_gradient(); }, "weight");
  EXPECT_TRUE(parameter.is_kept());
  EXPECT_EQ(parameter.gradient().shape(), (Dims{20, 3}));
  Tensor storage;
  EXPECT_EQ(parameter.value(storage).bytes(), parameter.own().value.view().bytes());
  parameter.update([](const std::string&, Parameter& own) { own.value.data<float>()[4] = 0.5f; }, "weight");
  EXPECT_EQ(parameter.part().panels().data<float>()[parameter.part().panel_columns() + 1], 0.5f);  // [1, 1]
  parameter.update([](const std::string&, Parameter& own) { own.gradient = {}; }, "weight");
  EXPECT_FALSE(parameter.is_kept());
  EXPECT_EQ(parameter.value(storage).at<float>({1, 1}), 0.5f);
}

TEST(PackedParameter, FewerBitsGiveWhatIsLeft) {
  const Tensor value = Tensor::of<float>({2, 2}, {1.0f, 1.00390625f, -127.0f, 63.4f});
  Tensor storage;
  const TensorView bf16 = PackedParameter(value, {2}, WeightStorage::bf16).value(storage);
  EXPECT_EQ(bf16.at<float>({0, 1}), 1.0f);  // 1 + 2^-8, between 1 and 1 + 2^-7, to the even one
  const TensorView int8 = PackedParameter(value, {2}, WeightStorage::int8).value(storage);
  EXPECT_EQ(int8.at<float>({1, 0}), -127.0f);
  EXPECT_EQ(int8.at<float>({1, 1}), 63.0f);
  const TensorView groups = PackedParameter(value, {2}, WeightStorage::int8_groups).value(storage);
  EXPECT_NEAR(groups.at<float>({1, 0}), -127.0f, 1.0f);  // half a unit of 127 / 64
  EXPECT_NEAR(groups.at<float>({1, 1}), 63.4f, 1.0f);
}

}  // namespace
}  // namespace qkv
