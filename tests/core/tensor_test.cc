// Tensors and views: extents and strides, what borrows and what copies, what is refused, and conversion of types.
#include "qkv/tensor.h"

#include <gtest/gtest.h>

#include "core/each_refused.h"
#include "io/files_for_test.h"

namespace qkv {
namespace {

using test::counted;
using test::values_of;
using Numbers = std::vector<double>;

TEST(Dims, HoldsUpToSixteen) {
  Dims dims{2, 3};
  dims.push_back(4);
  EXPECT_EQ(dims, (Dims{2, 3, 4}));
  EXPECT_NE(dims, (Dims{2, 3}));
  EXPECT_EQ(to_string(dims), "[2, 3, 4]");
  EXPECT_EQ(to_string(Dims{}), "[]");
  while (dims.size() < kMaxRank) dims.push_back(1);
  const std::vector<std::int64_t> many(kMaxRank + 1, 1);
  test::expect_each_refused({[&] { dims.push_back(1); }, [&] { Dims{std::span(many)}; }});
}

TEST(Dims, CountsElementsWithoutOverflow) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40, kMost = std::int64_t{1} << 59;
  const std::pair<Dims, std::int64_t> rows[] = {{{}, 1}, {{2, 3, 4}, 24}, {{kHuge, kHuge, 0}, 0}, {{kMost}, kMost}};
  for (const auto& [dims, count] : rows) EXPECT_EQ(element_count(dims), count) << to_string(dims);
  test::expect_each_refused(
      {[] { element_count({kHuge, kHuge}); }, [] { element_count({2, -1}); }, [] { element_count({0, -1}); }});
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
  test::expect_each_refused({[] { Tensor::of<float>({2, 2}, {1, 2, 3}); }, [&] { tensor.data<double>(); }});
}

TEST(Tensor, CopiesCopyAndMovesMove) {
  Tensor first = counted({4}, Dtype::f32);
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

// Each element is its number in [2, 3, 4].
TEST(TensorView, BorrowsAnyPart) {
  const Tensor tensor = counted({2, 3, 4}, Dtype::f32), column = counted({3, 1}, Dtype::f32);
  const TensorView all = tensor, part = all.slice(1, 1, 3).slice(-1, 2, 4), wide = column.view();
  const struct {
    const char* name;
    TensorView view;
    Dims shape, index;
    float value;
  } rows[] = {
      {"slice", part, {2, 2, 2}, {1, 1, 1}, 12 + 2 * 4 + 3},
      {"select", all.select(-2, 1), {2, 4}, {1, 2}, 12 + 4 + 2},
      {"transpose", all.transpose(0, -1), {4, 3, 2}, {3, 2, 1}, 23},
      {"reshape", all.reshape({6, 4}), {6, 4}, {4, 1}, 17},
      {"broadcast as NumPy", wide.broadcast_to({2, 3, 4}), {2, 3, 4}, {1, 2, 3}, 2},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(row.view.shape(), row.shape) << row.name;
    EXPECT_EQ(row.view.at<float>(row.index), row.value) << row.name;
  }
  EXPECT_FALSE(part.is_row_major());
  EXPECT_EQ(all.slice(0, 2, 2).element_count(), 0);
  EXPECT_EQ(wide.broadcast_to({2, 3, 4}).strides(), (Dims{0, 1, 0}));
  test::expect_each_refused({[&] { part.slice(3, 0, 1); }, [&] { part.slice(0, 0, 3); }, [&] { part.slice(0, 2, 1); },
                             [&] { part.slice(0, -1, 1); }, [&] { all.select(0, 2); }, [&] { all.transpose(0, 3); },
                             [&] { all.at<float>({0, 0, 4}); }, [&] { all.at<float>({0, 0}); },
                             [&] { all.reshape({5}); }, [&] { all.transpose(0, 1).reshape({24}); },
                             [&] { wide.broadcast_to({2, 4}); }, [&] { wide.broadcast_to({3}); }});
  Tensor written = counted({2, 3, 4}, Dtype::f32);
  written.view().slice(1, 1, 3).slice(-1, 2, 4).at<float>({0, 0, 0}) = -1;
  EXPECT_EQ(written.data<float>()[4 + 2], -1);
}

TEST(Convert, CopiesAnyStrides) {
  const Tensor tensor = counted({2, 3}, Dtype::f32);
  const Tensor turned = Tensor::copy(tensor.view().transpose(0, 1));
  EXPECT_EQ(Numbers(turned.data<float>(), turned.data<float>() + 6), (Numbers{0, 3, 1, 4, 2, 5}));
  Tensor target = Tensor::zeros({2, 3});
  convert(turned.view().transpose(0, 1), target.view());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(target.data<float>()[i], i);
  EXPECT_EQ(convert(Tensor::of<float>({}, {5}), Dtype::i32).data<std::int32_t>()[0], 5);
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
  EXPECT_EQ(values_of(convert(tensor, Dtype::boolean)), (Numbers{0, 1, 1}));
  EXPECT_EQ(values_of(convert(Tensor::of<float>({2}, {2.75f, -2.75f}), Dtype::i32)), (Numbers{2, -2}));
}

}  // namespace
}  // namespace qkv
