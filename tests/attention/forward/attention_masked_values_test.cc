// What a masked key or value holds, NaN and infinity included, never reaches the result: not one bit of it.
#include "attention/attention_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::attend;
using testing::Outcome;

constexpr std::int64_t kQueries = 53, kKeys = 1100;

// Writes `poison` into the rows of k and v that no query of the sequence sees, and counts them.
std::int64_t poison_unseen(const AttentionOptions& options, const Tensor& q, Tensor& k, Tensor& v, double poison) {
  const Tensor logits = reference::attention(q.view().slice(3, 0, 1), k.view().slice(3, 0, 1), v.view().slice(3, 0, 1),
                                             {.mask = options.mask})
                            .logits;
  std::int64_t unseen = 0;
  for (std::int64_t b = 0; b < k.size(0); ++b) {
    for (std::int64_t j = 0; j < k.size(2); ++j) {
      bool seen = false;
      for (std::int64_t h = 0; h < q.size(1); ++h) {
        for (std::int64_t i = 0; i < q.size(2); ++i) {
          seen = seen || logits.view().at<double>({b, h, i, j}) != -testing::kInfinity;
        }
      }
      if (seen) continue;
      ++unseen;
      for (Tensor* tensor : {&k, &v}) {
        const MutableTensorView row = tensor->view().select(0, b).slice(1, j, j + 1);
        convert(testing::filled(row.shape(), poison, tensor->dtype()), row);
      }
    }
  }
  return unseen;
}

struct Inputs {
  Tensor q, k, v;
};

Inputs inputs(std::uint64_t seed, Dtype dtype) {
  Random random(seed);
  return {testing::normal(random, {2, 2, kQueries, 16}, dtype), testing::normal(random, {2, 2, kKeys, 16}, dtype),
          testing::normal(random, {2, 2, kKeys, 16}, dtype)};
}

void expect_no_trace(const AttentionOptions& options, Dtype dtype) {
  for (const double poison : {testing::kNan, testing::kInfinity, -testing::kInfinity}) {
    SCOPED_TRACE(std::string(name_of(dtype)) + ", " + std::to_string(poison));
    auto [q, k, v] = inputs(1, dtype);
    const Outcome clean = attend(q, k, v, options);
    ASSERT_GT(poison_unseen(options, q, k, v, poison), 0);
    const Outcome poisoned = attend(q, k, v, options);
    EXPECT_TRUE(testing::same_bits(clean.out, poisoned.out));
    EXPECT_TRUE(testing::same_bits(clean.log_sum_exp, poisoned.log_sum_exp));
    EXPECT_TRUE(testing::same_bits(clean.weights, poisoned.weights));
    EXPECT_TRUE(testing::same_bits(clean.logits, poisoned.logits));
    EXPECT_TRUE(testing::same_bits(clean.out, attention(q, k, v, options)));
  }
}

QKV_ON_EACH_TARGET(AttentionMaskedValues);

TEST_P(AttentionMaskedValues, Causal) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    expect_no_trace({.mask = Mask::causal()}, dtype);
  }
}

TEST_P(AttentionMaskedValues, Window) {
  expect_no_trace({.mask = Mask::window(30, 40, Align::bottom_right)}, Dtype::f32);
  expect_no_trace({.mask = Mask::window(3, 5)}, Dtype::bf16);
}

TEST_P(AttentionMaskedValues, Lengths) {
  const Tensor lengths = Tensor::of<std::int64_t>({2}, {1037, 3});
  expect_no_trace({.mask = Mask::lengths(lengths)}, Dtype::f32);
  const Tensor none = Tensor::of<std::int64_t>({2}, {0, 1099});
  expect_no_trace({.mask = Mask::lengths(none) & Mask::causal(Align::bottom_right)}, Dtype::f16);
}

TEST_P(AttentionMaskedValues, Boolean) {
  Random random(2);
  const Tensor visible = testing::coin_flips(random, {2, 1, 1, kKeys}, 0.7);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    expect_no_trace({.mask = Mask::boolean(visible)}, dtype);
  }
}

TEST_P(AttentionMaskedValues, WithSinks) {
  Random random(5);
  const Tensor visible = testing::coin_flips(random, {2, 1, 1, kKeys}, 0.7), sinks = testing::normal(random, {2});
  expect_no_trace({.mask = Mask::boolean(visible), .sinks = sinks}, Dtype::f32);
}

TEST_P(AttentionMaskedValues, EveryScore) {
  Random random(3);
  const Tensor visible = testing::coin_flips(random, {1, 1, 1, kKeys}, 0.7);
  const Tensor w = testing::normal(random, {5, 16}), joined = testing::normal(random, {5, 32});
  const Tensor factor = testing::normal(random, {5}), square = testing::normal(random, {16, 16}, Dtype::f32, 0.1);
  for (const Score& score :
       {Score::dot(), Score::additive(w, w, factor), Score::concat(joined, factor), Score::bilinear(square)}) {
    expect_no_trace({.mask = Mask::boolean(visible), .scale = 0.2, .score = score}, Dtype::f32);
  }
}

// A key may be hidden from one query and seen by its neighbour: only the neighbour may turn into NaN.
TEST_P(AttentionMaskedValues, OnlyThoseWhoSeeItAreTouched) {
  for (const bool in_key : {false, true}) {
    auto [q, k, v] = inputs(4, Dtype::f32);
    const AttentionOptions options{.mask = Mask::causal()};
    const Tensor clean = attention(q, k, v, options);
    constexpr std::int64_t kAt = 50;
    (in_key ? k : v).view().at<float>({1, 0, kAt, 7}) = static_cast<float>(testing::kNan);
    const Tensor touched = attention(q, k, v, options);
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < kQueries; ++i) {
          const Dims at{b, h, i, 7};
          if (b == 1 && h == 0 && i >= kAt) {
            EXPECT_TRUE(std::isnan(touched.view().at<float>(at))) << to_string(at);
          } else {
            EXPECT_EQ(touched.view().at<float>(at), clean.view().at<float>(at)) << to_string(at);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace qkv
