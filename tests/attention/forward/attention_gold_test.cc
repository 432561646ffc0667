// The numbers of the classic walk-through of self-attention (three inputs, three roles), computed by hand in float64.
#include "attention/attention_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::Outcome;

const Tensor kQuery = Tensor::of<float>({3, 3}, {1, 0, 2, 2, 2, 2, 2, 1, 3});
const Tensor kKey = Tensor::of<float>({3, 3}, {0, 1, 1, 4, 4, 0, 2, 3, 1});
const Tensor kValue = Tensor::of<float>({3, 3}, {1, 2, 3, 2, 8, 0, 2, 6, 3});

struct Gold {
  const char* name;
  AttentionOptions options;
  std::vector<double> weights, log_sum_exp, out;  // weights and log_sum_exp may be left out
};

const std::vector<Gold>& golds() {
  static const std::vector<Gold> list = {
      {.name = "unscaled",
       .options = {.score = Score::dot()},
       .weights = {.0633789383, .468310531, .468310531, 6.03366485e-06, .982007865, .0179861014, 2.95387223e-04,
                   .880536902, .119167711},
       .log_sum_exp = {4.75862368, 16.018156, 12.1272234},
       .out = {1.93662106, 6.68310531, 1.59506841, 1.99999397, 7.9639916, .0539764053, 1.99970461, 7.75989225,
               .358389295}},
      {.name = "scaled",
       .options = {},
       .weights = {.136125798, .431937101, .431937101, 8.90447391e-04, .908842647, .0902669054, .00744489238,
                   .754707581, .237847527},
       .log_sum_exp = {3.14887638, 9.33318761, 7.20962815},
       .out = {1.8638742, 6.31937101, 1.7041887, 1.99910955, 7.8141235, .273472058, 1.99255511, 7.47963559,
               .735877258}},
      {.name = "scaled with look-ahead mask",
       .options = {.mask = Mask::causal()},
       .weights = {},
       .log_sum_exp = {},
       .out = {1, 2, 3, 1.9990212, 7.9941272, .0029364021, 1.99255511, 7.47963559, .735877258}}};
  return list;
}

// The gold numbers have nine significant digits.
constexpr double kPrinted = 5e-9;

void expect_numbers(const std::vector<double>& wanted, const TensorView& got, double relative, const char* what) {
  if (wanted.empty()) return;
  const std::vector<double> numbers = testing::values(got);
  ASSERT_EQ(numbers.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(numbers[i], wanted[i], relative * std::abs(wanted[i])) << what << " " << i;
  }
}

TEST(AttentionGold, Reference) {
  for (const Gold& gold : golds()) {
    SCOPED_TRACE(gold.name);
    const auto result = reference::attention(kQuery, kKey, kValue, gold.options);
    expect_numbers(gold.weights, result.weights, kPrinted, "weight");
    expect_numbers(gold.log_sum_exp, result.log_sum_exp, kPrinted, "log-sum-exp");
    expect_numbers(gold.out, result.out, kPrinted, "output");
  }
}

QKV_ON_EACH_TARGET(AttentionGoldKernel);

TEST_P(AttentionGoldKernel, EveryType) {
  // All inputs are exact in every type; what remains is the rounding of the accumulation and of the output.
  const struct {
    Dtype dtype;
    double accumulated, stored;
  } types[] = {{Dtype::f64, kPrinted, kPrinted},
               {Dtype::f32, 2e-6, 2e-6},
               {Dtype::bf16, 2e-6, 0x1p-8},
               {Dtype::f16, 2e-6, 0x1p-11}};
  for (const Gold& gold : golds()) {
    for (const auto& type : types) {
      SCOPED_TRACE(std::string(gold.name) + " in " + std::string(name_of(type.dtype)));
      const Outcome outcome = testing::attend(convert(kQuery, type.dtype), convert(kKey, type.dtype),
                                              convert(kValue, type.dtype), gold.options);
      expect_numbers(gold.weights, outcome.weights, 5 * type.accumulated, "weight");
      expect_numbers(gold.log_sum_exp, outcome.log_sum_exp, type.accumulated, "log-sum-exp");
      expect_numbers(gold.out, outcome.out, type.stored + 5 * type.accumulated, "output");
    }
  }
}

TEST_P(AttentionGoldKernel, LogitsAreTheScores) {
  const Outcome outcome = testing::attend(kQuery, kKey, kValue, {.mask = Mask::causal(), .score = Score::dot()});
  const std::vector<double> wanted = {2, -testing::kInfinity, -testing::kInfinity, 4, 16, -testing::kInfinity, 4, 12,
                                      10};
  EXPECT_EQ(testing::values(outcome.logits), wanted);
}

TEST_P(AttentionGoldKernel, ReturningFormEqualsTheOther) {
  const Tensor out = attention(kQuery, kKey, kValue);
  EXPECT_TRUE(testing::same_bits(out, testing::attend(kQuery, kKey, kValue).out));
}

// The additive, concatenation and bilinear scores, on numbers small enough for pencil and paper.
TEST(AttentionGold, OtherScores) {
  const Tensor q = Tensor::of<double>({1, 2}, {1, 2}), k = Tensor::of<double>({2, 1}, {3, -1});
  const Tensor v = Tensor::of<double>({2, 1}, {1, 0});
  const Tensor w_query = Tensor::of<double>({1, 2}, {0.5, -0.25}), w_key = Tensor::of<double>({1, 1}, {2});
  const Tensor joined = Tensor::of<double>({1, 3}, {0.5, -0.25, 2}), factor = Tensor::of<double>({1}, {1.5});
  const Tensor middle = Tensor::of<double>({2, 1}, {1, -2});
  // additive and concatenation: 1.5 tanh(0 + 6), 1.5 tanh(0 - 2); bilinear: (1 - 4) * 3, (1 - 4) * -1.
  const std::vector<double> additive = {1.5 * std::tanh(6.0), 1.5 * std::tanh(-2.0)}, bilinear = {-9, 3};
  const auto logits = [&](const Score& score) {
    return testing::values(reference::attention(q, k, v, {.score = score}).logits);
  };
  EXPECT_EQ(logits(Score::additive(w_query, w_key, factor)), additive);
  EXPECT_EQ(logits(Score::concat(joined, factor)), additive);
  EXPECT_EQ(logits(Score::bilinear(middle)), bilinear);
}

}  // namespace
}  // namespace qkv
