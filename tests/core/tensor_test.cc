// Tensors and views: extents and strides, what borrows and what copies, what is refused, and conversion of types.
#include "qkv/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace qkv {
namespace {

// 0, 1, 2 ... in row-major order.
Tensor counting(const Dims& shape) {
  Tensor tensor = Tensor::uninitialized(shape);
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) tensor.data<float>()[i] = static_cast<float>(i);
  return tensor;
}

TEST(Dims, HoldsUpToSixteen) {
  Dims dims{2, 3};
  dims.push_back(4);
  EXPECT_EQ(dims, (Dims{2, 3, 4}));
  EXPECT_NE(dims, (Dims{2, 3}));
  EXPECT_EQ(to_string(dims), "[2, 3, 4]");
  EXPECT_EQ(to_string(Dims{}), "[]");
  while (dims.size() < kMaxRank) dims.push_back(1);
  EXPECT_THROW(dims.push_back(1), std::invalid_argument);
  const std::vector<std::int64_t> many(kMaxRank + 1, 1);
  EXPECT_THROW(Dims{std::span(many)}, std::invalid_argument);
}

TEST(Dims, CountsElementsWithoutOverflow) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({kHuge, kHuge, 0}), 0);
  EXPECT_EQ(element_count({std::int64_t{1} << 59}), std::int64_t{1} << 59);
  EXPECT_THROW(element_count({kHuge, kHuge}), std::invalid_argument);
  EXPECT_THROW(element_count({2, -1}), std::invalid_argument);
  EXPECT_THROW(element_count({0, -1}), std::invalid_argument);
}

TEST(Tensor, OwnsRowMajorElements) {
  const Tensor tensor = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tensor.view().strides(), (Dims{3, 1}));
  EXPECT_TRUE(tensor.view().is_row_major());
  EXPECT_EQ(tensor.view().at<float>({1, 0}), 4);
  EXPECT_EQ(tensor.size(-1), 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.view().bytes()) % 64, 0u);
  const Tensor zeros = Tensor::zeros({3}, Dtype::f64);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(zeros.data<double>()[i], 0);
  EXPECT_EQ(Tensor().element_count(), 0);
  EXPECT_THROW(Tensor::of<float>({2, 2}, {1, 2, 3}), std::invalid_argument);
  EXPECT_THROW(tensor.data<double>(), std::invalid_argument);
}

TEST(Tensor, CopiesCopyAndMovesMove) {
  Tensor first = counting({4});
  Tensor second = first;
  second.data<float>()[0] = 7;
  EXPECT_EQ(first.data<float>()[0], 0);
  const float* address = second.data<float>();
  const Tensor third = std::move(second);
  EXPECT_EQ(third.data<float>(), address);
  const Tensor& same = first;
  first = same;
  EXPECT_EQ(first.data<float>()[3], 3);
}

TEST(TensorView, WasGivenOrNot) {
  EXPECT_FALSE(TensorView());
  EXPECT_TRUE(Tensor::zeros({0}).view());
  EXPECT_THROW(TensorView(nullptr, Dtype::f32, {2, 3}, {1}), std::invalid_argument);
}

TEST(TensorView, SlicesBorrow) {
  Tensor tensor = counting({2, 3, 4});
  const MutableTensorView part = tensor.view().slice(1, 1, 3).slice(-1, 2, 4);
  EXPECT_EQ(part.shape(), (Dims{2, 2, 2}));
  EXPECT_FALSE(part.is_row_major());
  EXPECT_EQ(part.at<float>({1, 1, 1}), 12 + 2 * 4 + 3);
  part.at<float>({0, 0, 0}) = -1;
  EXPECT_EQ(tensor.data<float>()[4 + 2], -1);
  EXPECT_EQ(tensor.view().slice(0, 2, 2).element_count(), 0);
  EXPECT_THROW(part.slice(3, 0, 1), std::invalid_argument);
  EXPECT_THROW(part.slice(0, 0, 3), std::invalid_argument);
  EXPECT_THROW(part.slice(0, 2, 1), std::invalid_argument);
  EXPECT_THROW(part.slice(0, -1, 1), std::invalid_argument);
}

TEST(TensorView, SelectsAndTransposes) {
  const Tensor tensor = counting({2, 3, 4});
  const TensorView row = tensor.view().select(-2, 1);
  EXPECT_EQ(row.shape(), (Dims{2, 4}));
  EXPECT_EQ(row.at<float>({1, 2}), 12 + 4 + 2);
  const TensorView turned = tensor.view().transpose(0, -1);
  EXPECT_EQ(turned.shape(), (Dims{4, 3, 2}));
  EXPECT_EQ(turned.at<float>({3, 2, 1}), 23);
  EXPECT_THROW(tensor.view().select(0, 2), std::invalid_argument);
  EXPECT_THROW(tensor.view().transpose(0, 3), std::invalid_argument);
  EXPECT_THROW(tensor.view().at<float>({0, 0, 4}), std::invalid_argument);
  EXPECT_THROW(tensor.view().at<float>({0, 0}), std::invalid_argument);
}

TEST(TensorView, ReshapesRowMajorOnly) {
  const Tensor tensor = counting({2, 6});
  EXPECT_EQ(tensor.view().reshape({3, 4}).at<float>({2, 1}), 9);
  EXPECT_THROW(tensor.view().reshape({5}), std::invalid_argument);
  EXPECT_THROW(tensor.view().transpose(0, 1).reshape({12}), std::invalid_argument);
}

TEST(TensorView, BroadcastsAsNumPy) {
  const Tensor tensor = counting({3, 1});
  const TensorView wide = tensor.view().broadcast_to({2, 3, 4});
  EXPECT_EQ(wide.strides(), (Dims{0, 1, 0}));
  EXPECT_EQ(wide.at<float>({1, 2, 3}), 2);
  EXPECT_THROW(tensor.view().broadcast_to({2, 4}), std::invalid_argument);
  EXPECT_THROW(tensor.view().broadcast_to({3}), std::invalid_argument);
}

TEST(Convert, CopiesAnyStrides) {
  const Tensor tensor = counting({2, 3});
  const Tensor turned = Tensor::copy(tensor.view().transpose(0, 1));
  const std::vector<float> expected = {0, 3, 1, 4, 2, 5};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(turned.data<float>()[i], expected[i]);
  Tensor target = Tensor::zeros({2, 3});
  convert(turned.view().transpose(0, 1), target.view());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(target.data<float>()[i], i);
  const Tensor scalar = Tensor::of<float>({}, {5});
  EXPECT_EQ(convert(scalar, Dtype::i32).data<std::int32_t>()[0], 5);
  EXPECT_EQ(convert(Tensor::zeros({0, 3}), Dtype::f64).shape(), (Dims{0, 3}));
  Tensor other = Tensor::zeros({3, 2});
  EXPECT_THROW(convert(tensor, other.view()), std::invalid_argument);
}

TEST(Convert, PassesThroughEveryType) {
  const Tensor tensor = Tensor::of<float>({3}, {0, 1, 100});
  for (const Dtype dtype : {Dtype::f64, Dtype::bf16, Dtype::f16, Dtype::i8, Dtype::u8, Dtype::i16, Dtype::u16,
                            Dtype::i32, Dtype::u32, Dtype::i64, Dtype::u64}) {
    const Tensor back = convert(convert(tensor, dtype), Dtype::f32);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(back.data<float>()[i], tensor.data<float>()[i]) << name_of(dtype);
  }
  const Tensor truths = convert(tensor, Dtype::boolean);
  EXPECT_FALSE(truths.data<bool>()[0]);
  EXPECT_TRUE(truths.data<bool>()[2]);
  const Tensor halves = Tensor::of<float>({2}, {2.75f, -2.75f});
  EXPECT_EQ(convert(halves, Dtype::i32).data<std::int32_t>()[0], 2);
  EXPECT_EQ(convert(halves, Dtype::i32).data<std::int32_t>()[1], -2);
}

}  // namespace
}  // namespace qkv
