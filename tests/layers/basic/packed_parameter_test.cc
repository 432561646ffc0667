// PackedParameter: its value comes back bit for bit from panels, and stays beside them while it is trained.
#include "qkv/layers/packed_parameter.h"

#include "attention/attention_testing.h"

namespace qkv {
namespace {

using testing::same_bits;

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
