// Which weights dropout keeps: golden/dropout, made by make.py beside it, and what holds for every mask.
#include "core/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "qkv/files.h"

namespace qkv {
namespace {

Tensor mask(const Dropout& dropout, const Dims& shape, const DropoutIndex& first = {}, Dtype dtype = Dtype::u8) {
  Tensor kept = Tensor::zeros(shape, dtype);
  dropout_mask(dropout, kept, first);
  return kept;
}

void expect_same(const TensorView& a, const TensorView& b) {
  ASSERT_EQ(a.shape(), b.shape());
  const Tensor x = convert(a, Dtype::u8), y = convert(b, Dtype::u8);
  for (std::int64_t i = 0; i < x.element_count(); ++i) {
    ASSERT_EQ(x.data<std::uint8_t>()[i], y.data<std::uint8_t>()[i]) << i;
  }
}

double share(const Tensor& kept) {
  double sum = 0;
  for (std::int64_t i = 0; i < kept.element_count(); ++i) sum += kept.data<std::uint8_t>()[i];
  return sum / static_cast<double>(kept.element_count());
}

TEST(DropoutMask, GoldenMasks) {
  const Tensor whole = read_array(QKV_TEST_DATA "/golden/dropout/whole.npy");
  const Tensor part = read_array(QKV_TEST_DATA "/golden/dropout/part.npy");
  const Dropout seven{.p = 0.25, .seed = 7};
  expect_same(mask(seven, {2, 3, 17, 20}), whole);
  expect_same(mask(seven, {2, 3, 17, 20}, {}, Dtype::boolean), whole);
  expect_same(mask({.p = 0.3, .seed = 0x0123456789abcdef}, {2, 3, 4, 21}, {5, 1, 70, 3}), part);
}

TEST(DropoutMask, RanksAndStrides) {
  const Dropout dropout{.p = 0.5, .seed = 1};
  const Tensor whole = mask(dropout, {4, 3, 5, 11});
  expect_same(mask(dropout, {2, 2, 3, 5, 11}).view().reshape({4, 3, 5, 11}), whole);
  expect_same(mask(dropout, {3, 5, 11}), whole.view().select(0, 0));
  expect_same(mask(dropout, {5, 11}, {.sequence = 2, .head = 1}), whole.view().select(0, 2).select(0, 1));
  expect_same(mask(dropout, {2, 4}, {.query = 3, .key = 6}),
              whole.view().select(0, 0).select(0, 0).slice(0, 3, 5).slice(1, 6, 10));
  Tensor turned = Tensor::zeros({11, 3, 4, 5}, Dtype::u8);
  const MutableTensorView view = turned.view().transpose(0, 2).transpose(2, 3);
  dropout_mask(dropout, view);
  expect_same(view, whole);
  EXPECT_EQ(mask(dropout, {2, 0, 3, 4}).element_count(), 0);
}

TEST(DropoutMask, KeepsTheRateThatItDividesBy) {
  for (const double p : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    const DropoutRule rule({.p = p, .seed = 3});
    const double rate = rule.threshold / 65536.0;
    EXPECT_NEAR(rate, 1 - p, 0.5 / 65536);
    EXPECT_EQ(rule.factor, rate == 0 ? 0 : 1 / rate);
    // Five standard deviations of the share of 200,000.
    const double deviation = std::sqrt(rate * (1 - rate) / 200000);
    EXPECT_NEAR(share(mask({.p = p, .seed = 3}, {1, 4, 250, 200})), rate, 5 * deviation);
  }
  EXPECT_FALSE(DropoutRule(Dropout{}).is_on());
}

TEST(DropoutMask, SeedsAndIndicesGiveOtherMasks) {
  const auto differs = [](const Tensor& a, const Tensor& b) {
    double equal = 0;
    for (std::int64_t i = 0; i < a.element_count(); ++i) {
      equal += a.data<std::uint8_t>()[i] == b.data<std::uint8_t>()[i];
    }
    return std::abs(equal / static_cast<double>(a.element_count()) - 0.5) < 0.05;  // ten standard deviations
  };
  const Tensor first = mask({.p = 0.5, .seed = 1}, {100, 100});
  EXPECT_TRUE(differs(first, mask({.p = 0.5, .seed = 2}, {100, 100})));
  EXPECT_TRUE(differs(first, mask({.p = 0.5, .seed = 1 | std::uint64_t{1} << 63}, {100, 100})));
  for (const DropoutIndex& index :
       {DropoutIndex{1, 0, 0, 0}, DropoutIndex{0, 1, 0, 0}, DropoutIndex{0, 0, 100, 0}, DropoutIndex{0, 0, 0, 100}}) {
    EXPECT_TRUE(differs(first, mask({.p = 0.5, .seed = 1}, {100, 100}, index)));
  }
}

TEST(DropoutMask, RefusesWhatDoesNotFit) {
  const auto message = [](const Dropout& dropout, const Dims& shape, const DropoutIndex& first, Dtype dtype) {
    try {
      mask(dropout, shape, first, dtype);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (const double p : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_NE(message({.p = p}, {2, 2}, {}, Dtype::u8).find("dropout: p must be 0 (off) to 1, got"), std::string::npos);
  }
  EXPECT_EQ(message({}, {2, 2}, {}, Dtype::f32), "dropout_mask: kept must be bool or u8, got f32");
  EXPECT_EQ(message({}, {2}, {}, Dtype::u8),
            "dropout_mask: kept must be [..., heads, q_len, k_len] or [q_len, k_len], got [2]");
  EXPECT_EQ(message({}, {2, 2}, {.key = -1}, Dtype::u8), "dropout_mask: indices must be 0 or more, got -1");
}

}  // namespace
}  // namespace qkv
