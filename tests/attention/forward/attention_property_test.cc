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

struct RandomInputs {
  Tensor q, k, v;
};

RandomInputs inputs(std::uint64_t seed, std::int64_t q_len, std::int64_t k_len, Dtype dtype = Dtype::f32) {
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

}  // namespace
}  // namespace qkv
