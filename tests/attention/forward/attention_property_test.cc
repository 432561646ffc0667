// What must hold for any input, whatever the numbers: the algebra of softmax, and how the extras fit together.
#include <algorithm>

#include "attention/attention_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::attend;
using testing::kInfinity;
using testing::Outcome;

// Two f32 computations of the same output that differ in every rounding; outputs are below 4 in size.
constexpr double kTolerance = 4e-6;

struct Inputs {
  Tensor q, k, v;
};

Inputs inputs(std::uint64_t seed, std::int64_t q_len, std::int64_t k_len, Dtype dtype = Dtype::f32) {
  Random random(seed);
  return {testing::normal(random, {2, 4, q_len, 24}, dtype), testing::normal(random, {2, 2, k_len, 24}, dtype),
          testing::normal(random, {2, 2, k_len, 20}, dtype)};
}

QKV_ON_EACH_TARGET(AttentionProperty);

TEST_P(AttentionProperty, AConstantOnAllLogitsOfARowChangesNothing) {
  const auto [q, k, v] = inputs(1, 60, 150);
  const Outcome plain = attend(q, k, v);
  Random random(2);
  Tensor constants = testing::normal(random, {2, 4, 60, 1}, Dtype::f32, 4);
  const Outcome shifted = attend(q, k, v, {.bias = Bias::view(constants)});
  EXPECT_LE(testing::difference(plain.out, shifted.out), kTolerance);
  EXPECT_LE(testing::difference(plain.weights, shifted.weights), kTolerance);
  for (std::int64_t i = 0; i < constants.element_count(); ++i) {
    const double moved = shifted.log_sum_exp.data<float>()[i] - plain.log_sum_exp.data<float>()[i];
    EXPECT_NEAR(moved, constants.data<float>()[i], 1e-5);
  }
}

TEST_P(AttentionProperty, OrderOfKeysDoesNotMatter) {
  const auto [q, k, v] = inputs(3, 50, 1100);
  Tensor turned_k = Tensor::uninitialized(k.shape()), turned_v = Tensor::uninitialized(v.shape());
  for (std::int64_t j = 0; j < 1100; ++j) {
    const std::int64_t other = j * 457 % 1100;  // 457 and 1100 share no divisor: a permutation
    convert(k.view().slice(2, j, j + 1), turned_k.view().slice(2, other, other + 1));
    convert(v.view().slice(2, j, j + 1), turned_v.view().slice(2, other, other + 1));
  }
  EXPECT_LE(testing::difference(attend(q, k, v).out, attend(q, turned_k, turned_v).out), kTolerance);
}

TEST_P(AttentionProperty, MergedPartsEqualTheWholeInAnyOrder) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const auto [q, k, v] = inputs(4, 33, 1300, dtype);
    const Outcome whole = attend(q, k, v);
    const std::int64_t cuts[] = {0, 1, 140, 1180, 1300};
    std::vector<Outcome> parts;
    for (int part = 0; part < 4; ++part) {
      const std::int64_t begin = cuts[part], end = cuts[part + 1];
      parts.push_back(attend(q, k.view().slice(2, begin, end), v.view().slice(2, begin, end)));
    }
    const double tolerance = dtype == Dtype::f64 ? 1e-14 : kTolerance;
    int order[] = {0, 1, 2, 3};
    do {
      Tensor out = parts[static_cast<std::size_t>(order[0])].out;
      Tensor log_sum_exp = parts[static_cast<std::size_t>(order[0])].log_sum_exp;
      for (int i = 1; i < 4; ++i) {
        const Outcome& part = parts[static_cast<std::size_t>(order[i])];
        merge_attention(out, log_sum_exp, part.out, part.log_sum_exp);
      }
      EXPECT_LE(testing::difference(out, whole.out), tolerance);
      EXPECT_LE(testing::difference(log_sum_exp, whole.log_sum_exp), 4 * tolerance);
    } while (std::next_permutation(std::begin(order), std::end(order)));
  }
}

TEST_P(AttentionProperty, APartWithoutKeysAddsNothing) {
  const auto [q, k, v] = inputs(5, 10, 40);
  const Outcome some = attend(q, k, v);
  const Outcome none = attend(q, k.view().slice(2, 0, 0), v.view().slice(2, 0, 0));
  EXPECT_EQ(testing::difference(none.out, Tensor::zeros(none.out.shape())), 0);
  EXPECT_EQ(testing::difference(none.log_sum_exp, testing::filled({2, 4, 10}, -kInfinity)), 0);
  for (const bool nothing_first : {false, true}) {
    Outcome merged = nothing_first ? none : some;
    const Outcome& other = nothing_first ? some : none;
    merge_attention(merged.out, merged.log_sum_exp, other.out, other.log_sum_exp);
    EXPECT_TRUE(testing::same_bits(merged.out, some.out));
    EXPECT_TRUE(testing::same_bits(merged.log_sum_exp, some.log_sum_exp));
  }
  Outcome nothing = none;
  merge_attention(nothing.out, nothing.log_sum_exp, none.out, none.log_sum_exp);
  EXPECT_TRUE(testing::same_bits(nothing.out, none.out));
  EXPECT_TRUE(testing::same_bits(nothing.log_sum_exp, none.log_sum_exp));
}

TEST_P(AttentionProperty, FutureTokensNeverChangePastOutputs) {
  const auto [q, k, v] = inputs(6, 200, 200);
  const Outcome before = attend(q, k, v, {.mask = Mask::causal()});
  for (const std::int64_t now : {0, 1, 47, 48, 127, 128, 198}) {
    Random random(7);
    Tensor other_k = k, other_v = v;
    convert(testing::normal(random, {2, 2, 199 - now, 24}), other_k.view().slice(2, now + 1, 200));
    convert(testing::normal(random, {2, 2, 199 - now, 20}), other_v.view().slice(2, now + 1, 200));
    const Outcome after = attend(q, other_k, other_v, {.mask = Mask::causal()});
    EXPECT_TRUE(testing::same_bits(before.out.view().slice(2, 0, now + 1), after.out.view().slice(2, 0, now + 1)));
    EXPECT_FALSE(testing::same_bits(before.out, after.out));
  }
}

// A call with every kind of mask and bias; rows without keys among them.
struct Everything {
  Everything() {
    Random random(8);
    visible = testing::coin_flips(random, {1, 4, 70, 1100}, 0.8);
    for (std::int64_t j = 0; j < 1100; ++j) visible.view().at<bool>({0, 2, 5, j}) = false;
    bias = testing::normal(random, {2, 1, 1, 1100});
    options = {.mask = Mask::causal(Align::bottom_right) & Mask::window(1050, 0) & Mask::lengths(lengths) &
                       Mask::boolean(visible),
               .bias = Bias::view(bias) + Bias::alibi(slopes),
               .soft_cap = 5};
  }
  Tensor visible, bias;
  Tensor lengths = Tensor::of<std::int32_t>({2}, {1100, 60});
  Tensor slopes = Tensor::of<float>({4}, {0.5f, 0.25f, 0.01f, 0});
  AttentionOptions options;
};

TEST_P(AttentionProperty, WeightsTimesValuesIsTheOutput) {
  const auto [q, k, v] = inputs(9, 70, 1100);
  const Everything all;
  const Outcome outcome = attend(q, k, v, all.options);
  const TensorView weights = outcome.weights.view();
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t h = 0; h < 4; ++h) {
      for (std::int64_t i = 0; i < 70; ++i) {
        double total = 0;
        std::vector<double> sums(20, 0);
        for (std::int64_t j = 0; j < 1100; ++j) {
          const double weight = weights.at<float>({b, h, i, j});
          total += weight;
          for (std::int64_t c = 0; c < 20; ++c) {
            sums[static_cast<std::size_t>(c)] += weight * static_cast<double>(v.view().at<float>({b, h / 2, j, c}));
          }
        }
        const bool without_keys = outcome.log_sum_exp.view().at<float>({b, h, i}) == -kInfinity;
        EXPECT_NEAR(total, without_keys ? 0 : 1, 8 * 0x1p-23);
        for (std::int64_t c = 0; c < 20; ++c) {
          ASSERT_NEAR(outcome.out.view().at<float>({b, h, i, c}), sums[static_cast<std::size_t>(c)], kTolerance);
        }
      }
    }
  }
}

TEST_P(AttentionProperty, LogitsAreMinusInfinityExactlyWhereMasked) {
  const auto [q, k, v] = inputs(10, 70, 1100);
  const Everything all;
  const std::vector<double> wanted = testing::values(reference::attention(q, k, v, all.options).logits);
  const Outcome outcome = attend(q, k, v, all.options);
  const std::vector<double> logits = testing::values(outcome.logits), weights = testing::values(outcome.weights);
  ASSERT_EQ(logits.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(logits[i] == -kInfinity, wanted[i] == -kInfinity) << i;
    if (wanted[i] == -kInfinity) {
      ASSERT_EQ(weights[i], 0) << i;
    }
  }
}

TEST_P(AttentionProperty, ChosenRowsAreRowsOfTheWeights) {
  const auto [q, k, v] = inputs(11, 70, 1100);
  const Everything all;
  const Tensor weights = attend(q, k, v, all.options).weights;
  const std::vector<std::int64_t> chosen = {0, 0, 0, 1, 3, 69, 0, 2, 5, 1, 1, 48, 0, 0, 0};
  const Tensor rows = Tensor::of<std::int64_t>({5, 3}, chosen);
  Tensor row_weights = testing::filled({5, 1100}, testing::kNan);
  attention(q, k, v, all.options, {.rows = rows, .row_weights = row_weights});
  for (std::int64_t n = 0; n < 5; ++n) {
    const std::int64_t* row = rows.data<std::int64_t>() + 3 * n;
    const TensorView wanted = weights.view().select(0, row[0]).select(0, row[1]).select(0, row[2]);
    EXPECT_TRUE(testing::same_bits(row_weights.view().select(0, n), wanted)) << n;
  }
}

TEST_P(AttentionProperty, AskingForExtrasDoesNotChangeTheOutput) {
  const auto [q, k, v] = inputs(12, 70, 1100);
  const Everything all;
  EXPECT_TRUE(testing::same_bits(attention(q, k, v, all.options), attend(q, k, v, all.options).out));
}

}  // namespace
}  // namespace qkv
