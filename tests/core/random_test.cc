// Random numbers: the known answers of the paper's own library, and the ranges and moments that callers rely on. Which
// weights dropout keeps: golden/dropout, made by make.py beside it, and what holds for every mask.
#include "qkv/random.h"

#include "attention/options/dropout.h"
#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using Block = std::array<std::uint32_t, 4>;

// From kat_vectors of Random123 1.14.
TEST(Random, PhiloxGivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 7), (Block{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~std::uint64_t{0}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, StreamsCountBlocks) {
  Random plain(5), third(5, 0x0000000700000003);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (const std::uint32_t word : philox({block, 0, 0, 0}, 5)) EXPECT_EQ(plain.bits(), word);
    for (const std::uint32_t word : philox({block, 0, 3, 7}, 5)) EXPECT_EQ(third.bits(), word);
  }
}

TEST(Random, NumbersHaveTheirRangesAndMoments) {
  Random random(1);
  std::array<int, 7> count{};
  for (int i = 0; i < 7000; ++i) ++count.at(random.below(7));
  for (const int n : count) EXPECT_NEAR(n, 1000, 150);  // five standard deviations of a count
  EXPECT_EQ(random.below(1), 0u);
  EXPECT_LT(random.below(~std::uint64_t{0}), ~std::uint64_t{0});
  constexpr int kDraws = 100000;  // standard errors, five times
  double uniform = 0, normal = 0, square = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform += u;
    const double x = random.normal();
    ASSERT_TRUE(std::isfinite(x));
    normal += x;
    square += x * x;
  }
  EXPECT_NEAR(uniform / kDraws, 0.5, 5 / std::sqrt(12.0 * kDraws));
  EXPECT_NEAR(normal / kDraws, 0.0, 5 / std::sqrt(1.0 * kDraws));
  EXPECT_NEAR(square / kDraws, 1.0, 5 * std::sqrt(2.0 / kDraws));
}

Tensor mask(const Dropout& dropout, const Dims& shape, const DropoutIndex& first = {}, Dtype dtype = Dtype::u8) {
  Tensor kept = Tensor::zeros(shape, dtype);
  dropout_mask(dropout, kept, first);
  return kept;
}

TEST(DropoutMask, GoldenMasks) {
  const Tensor whole = read_array(QKV_TEST_DATA "/golden/dropout/whole.npy");
  const Tensor part = read_array(QKV_TEST_DATA "/golden/dropout/part.npy");
  const Dropout seven{.p = 0.25, .seed = 7};
  test::expect_equal(mask(seven, {2, 3, 17, 20}), whole);
  test::expect_equal(mask(seven, {2, 3, 17, 20}, {}, Dtype::boolean), convert(whole, Dtype::boolean));
  test::expect_equal(mask({.p = 0.3, .seed = 0x0123456789abcdef}, {2, 3, 4, 21}, {5, 1, 70, 3}), part);
}

TEST(DropoutMask, RanksAndStrides) {
  const Dropout dropout{.p = 0.5, .seed = 1};
  const Tensor tensor = mask(dropout, {4, 3, 5, 11});
  const TensorView whole = tensor, first = whole.select(0, 0);
  test::expect_equal(mask(dropout, {2, 2, 3, 5, 11}).view().reshape({4, 3, 5, 11}), whole);
  test::expect_equal(mask(dropout, {3, 5, 11}), first);
  test::expect_equal(mask(dropout, {5, 11}, {.sequence = 2, .head = 1}), whole.select(0, 2).select(0, 1));
  test::expect_equal(mask(dropout, {2, 4}, {.query = 3, .key = 6}), first.select(0, 0).slice(0, 3, 5).slice(1, 6, 10));
  Tensor turned = Tensor::zeros({11, 3, 4, 5}, Dtype::u8);
  const MutableTensorView view = turned.view().transpose(0, 2).transpose(2, 3);
  dropout_mask(dropout, view);
  test::expect_equal(view, whole);
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
    const std::vector<double> kept = test::values_of(mask({.p = p, .seed = 3}, {1, 4, 250, 200}));
    EXPECT_NEAR(std::accumulate(kept.begin(), kept.end(), 0.0) / 200000, rate, 5 * deviation);
  }
  EXPECT_FALSE(DropoutRule(Dropout{}).is_on());
}

TEST(DropoutMask, RefusesWhatDoesNotFit) {
  const auto message = [](const Dropout& dropout, const Dims& shape, const DropoutIndex& first, Dtype dtype) {
    return test::message_of<std::invalid_argument>([&] { mask(dropout, shape, first, dtype); });
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
