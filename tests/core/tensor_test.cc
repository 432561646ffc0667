// Tensors and views: extents and strides, what borrows and what copies, what is refused, and conversion of types; and
// element types: names and sizes, and the two 16-bit types over every bit pattern.
#include "qkv/tensor.h"

#include "core/core_for_test.h"
#include "io/files_for_test.h"

namespace qkv {
namespace {

using test::counted;
using test::values_of;
using Numbers = std::vector<double>;

TEST(Dims, HoldsUpToSixteenWithoutOverflow) {
  Dims dims{2, 3};
  dims.push_back(4);
  EXPECT_EQ(dims, (Dims{2, 3, 4}));
  EXPECT_NE(dims, (Dims{2, 3}));
  EXPECT_EQ(to_string(dims), "[2, 3, 4]");
  EXPECT_EQ(to_string(Dims{}), "[]");
  while (dims.size() < kMaxRank) dims.push_back(1);
  const std::vector<std::int64_t> many(kMaxRank + 1, 1);
  test::expect_each_refused({[&] { dims.push_back(1); }, [&] { Dims{std::span(many)}; }});
  constexpr std::int64_t kHuge = std::int64_t{1} << 40, kMost = std::int64_t{1} << 59;
  const std::pair<Dims, std::int64_t> rows[] = {{{}, 1}, {{2, 3, 4}, 24}, {{kHuge, kHuge, 0}, 0}, {{kMost}, kMost}};
  for (const auto& [extents, count] : rows) EXPECT_EQ(element_count(extents), count) << to_string(extents);
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
  EXPECT_FALSE(TensorView());  // was not given
  EXPECT_TRUE(Tensor::zeros({0}).view());
  EXPECT_FALSE(part.is_row_major());
  EXPECT_EQ(all.slice(0, 2, 2).element_count(), 0);
  EXPECT_EQ(wide.broadcast_to({2, 3, 4}).strides(), (Dims{0, 1, 0}));
  test::expect_each_refused({[] { TensorView(nullptr, Dtype::f32, {2, 3}, {1}); }, [&] { part.slice(3, 0, 1); },
                             [&] { part.slice(0, 0, 3); }, [&] { part.slice(0, 2, 1); }, [&] { part.slice(0, -1, 1); },
                             [&] { all.select(0, 2); }, [&] { all.transpose(0, 3); }, [&] { all.at<float>({0, 0, 4}); },
                             [&] { all.at<float>({0, 0}); }, [&] { all.reshape({5}); },
                             [&] { all.transpose(0, 1).reshape({24}); },
                             [&] { wide.broadcast_to({2, 3, 1}).reshape({6}); }, [&] { wide.broadcast_to({2, 4}); },
                             [&] { wide.broadcast_to({3}); }});
  Tensor written = counted({2, 3, 4}, Dtype::f32);
  written.view().slice(1, 1, 3).slice(-1, 2, 4).at<float>({0, 0, 0}) = -1;
  EXPECT_EQ(written.data<float>()[4 + 2], -1);
}

TEST(Convert, CopiesAnyStridesAndPassesThroughEveryType) {
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
  const Tensor numbers = Tensor::of<float>({3}, {0, 1, 100});
  for (const Dtype dtype : {Dtype::f64, Dtype::bf16, Dtype::f16, Dtype::i8, Dtype::u8, Dtype::i16, Dtype::u16,
                            Dtype::i32, Dtype::u32, Dtype::i64, Dtype::u64}) {
    EXPECT_EQ(values_of(convert(convert(numbers, dtype), Dtype::f32)), (Numbers{0, 1, 100})) << name_of(dtype);
  }
  EXPECT_EQ(values_of(convert(numbers, Dtype::boolean)), (Numbers{0, 1, 1}));
  EXPECT_EQ(values_of(convert(Tensor::of<float>({2}, {2.75f, -2.75f}), Dtype::i32)), (Numbers{2, -2}));
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What the bits mean, by the definition of a binary format: fraction bits, exponent bits, then the sign.
double meaning(std::uint32_t bits, int fraction_bits, int exponent_bits) {
  const int largest = (1 << exponent_bits) - 1, bias = largest / 2;
  const int exponent = static_cast<int>(bits >> fraction_bits) & largest;
  const std::uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const double sign = bits >> (fraction_bits + exponent_bits) ? -1.0 : 1.0;
  if (exponent == largest) return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1u << fraction_bits), exponent - bias - fraction_bits);
}

template <class Half>
void expect_format(int fraction_bits, int exponent_bits) {
  const auto meaning_of = [=](std::uint32_t bits) { return meaning(bits, fraction_bits, exponent_bits); };
  const std::uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits, sign_bit = 0x8000;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(half);
    const double expected = meaning_of(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value) && std::isnan(static_cast<float>(Half(value)))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
      ASSERT_EQ(Half(value).bits, bits);
    }
  }
  // Between each number and the next: the midpoint goes to the even one, its neighbours in f32 to the nearer one. The
  // midpoint beyond the largest number goes to infinity.
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    const double low = meaning_of(bits), step = bits == 0 ? meaning_of(1) : low - meaning_of(bits - 1);
    const double high = bits + 1 == infinity ? low + step : meaning_of(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(middle), (low + high) / 2) << bits;
    for (const std::uint32_t sign : {0u, sign_bit}) {
      const float factor = sign ? -1.0f : 1.0f;
      ASSERT_EQ(Half(factor * middle).bits, sign | (bits + bits % 2)) << bits;
      ASSERT_EQ(Half(factor * std::nextafter(middle, 0.0f)).bits, sign | bits) << bits;
      ASSERT_EQ(Half(factor * std::nextafter(middle, kInfinity)).bits, sign | (bits + 1)) << bits;
    }
  }
  EXPECT_EQ(Half(kInfinity).bits, infinity);
  EXPECT_EQ(Half(-kInfinity).bits, sign_bit | infinity);
  EXPECT_EQ(Half(std::numeric_limits<float>::max()).bits, infinity);
  for (const std::uint32_t nan : {0x7f800001u, 0xff800001u}) {  // whose payload lies in the bits that are cut off
    EXPECT_TRUE(std::isnan(static_cast<float>(Half(std::bit_cast<float>(nan)))));
  }
}

TEST(Dtype, BFloat16IsItsFormat) { expect_format<BFloat16>(7, 8); }
TEST(Dtype, Float16IsItsFormat) { expect_format<Float16>(10, 5); }

}  // namespace
}  // namespace qkv
