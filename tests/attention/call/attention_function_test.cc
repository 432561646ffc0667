// A user's own mask and change of the logits: the same as the library's own ones that say the same.
#include "qkv/attention/attention_function.h"

#include <cstdio>
#include <stdexcept>

#include "attention/attention_testing.h"
#include "qkv/attention/attention_backward.h"

namespace qkv {
namespace {

QKV_ON_EACH_TARGET(AttentionFunction);

// Whole heads, batches and chunks; rows of one query are decoded.
TEST_P(AttentionFunction, MaskIsTheBooleanMaskOfTheSamePairs) {
  Random random(1);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16}) {
    for (const std::int64_t q_len : {1, 3, 60}) {
      const std::int64_t k_len = 1100;
      const Tensor q = testing::normal(random, {2, 2, q_len, 8}, dtype);
      const Tensor k = testing::normal(random, {2, 2, k_len, 8}, dtype);
      const auto sees = [](const Pair& at) { return (at.key + 3 * at.query + at.head + 2 * at.batch) % 5 < 2; };
      Tensor visible = Tensor::zeros({2, 2, q_len, k_len}, Dtype::u8);
      for (std::int32_t b = 0; b < 2; ++b) {
        for (std::int32_t h = 0; h < 2; ++h) {
          for (std::int32_t i = 0; i < q_len; ++i) {
            for (std::int32_t j = 0; j < k_len; ++j) {
              visible.view().at<std::uint8_t>({b, h, i, j}) = sees({b, h, i, j, i}) ? 1 : 0;
            }
          }
        }
      }
      const Mask other = Mask::window(1000, 1050);
      const testing::Outcome a = testing::attend(q, k, k, {.mask = other & Mask::function(mask_function(sees))});
      const testing::Outcome b = testing::attend(q, k, k, {.mask = other & Mask::boolean(visible)});
      EXPECT_TRUE(testing::same_bits(a.out, b.out)) << q_len;
      EXPECT_TRUE(testing::same_bits(a.log_sum_exp, b.log_sum_exp)) << q_len;
      EXPECT_TRUE(testing::same_bits(a.weights, b.weights)) << q_len;
      EXPECT_TRUE(testing::same_bits(a.logits, b.logits)) << q_len;
    }
  }
}

// What a function hides leaves no trace, even NaN.
TEST_P(AttentionFunction, HiddenKeysDoNotLeak) {
  Random random(2);
  for (const std::int64_t q_len : {1, 20}) {
    const Tensor q = testing::normal(random, {1, q_len, 8});
    Tensor k = testing::normal(random, {1, 100, 8});
    const AttentionOptions options{.mask = Mask::function(mask_function([](const Pair& at) { return at.key != 37; }))};
    const Tensor clean = attention(q, k, k, options);
    k.view().at<float>({0, 37, 2}) = static_cast<float>(testing::kNan);
    EXPECT_TRUE(testing::same_bits(attention(q, k, k, options), clean));
  }
}

TEST_P(AttentionFunction, LogitFunctionSeesLogitAndPosition) {
  Random random(3);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t q_len : {1, 5, 50}) {
      const Tensor q = testing::normal(random, {2, 3, q_len, 8}, dtype),
                   k = testing::normal(random, {2, 3, 70, 8}, dtype);
      const Tensor bias = testing::normal(random, {70}, dtype);
      const LogitFunction function = logit_function([](auto logit, const Pair& at) {
        return logit * 2 + at.batch * 1000 + at.head * 100 + at.position - at.key;
      });
      const AttentionOptions plain{.mask = Mask::causal(Align::bottom_right), .bias = Bias::view(bias)};
      AttentionOptions changed = plain;
      changed.logit_function = function;
      const Tensor before = testing::attend(q, k, k, plain).logits, after = testing::attend(q, k, k, changed).logits;
      const std::vector<double> x = testing::values(before), y = testing::values(after);
      for (std::size_t at = 0; at < x.size(); ++at) {
        const auto row = static_cast<std::int64_t>(at) / 70, key = static_cast<std::int64_t>(at) % 70;
        const std::int64_t position = row % q_len + 70 - q_len;
        const double wanted =
            x[at] * 2 + static_cast<double>(row / q_len / 3 * 1000 + row / q_len % 3 * 100 + position - key);
        if (std::isinf(x[at])) {
          EXPECT_EQ(y[at], x[at]);
        } else {
          EXPECT_NEAR(y[at], wanted, dtype == Dtype::f64 ? 1e-12 : 1e-3) << row << " " << key;
        }
      }
    }
  }
}

TEST_P(AttentionFunction, MaskFunctionsHaveGradients) {
  const Tensor q = testing::filled({1, 2, 4}, 1), grad_out = testing::filled({1, 2, 4}, 1);
  const Tensor k = testing::filled({1, 20, 4}, 1), log_sum_exp = testing::filled({1, 2}, std::log(10.0) + 2);
  Tensor gradient = testing::filled({1, 20, 4}, 7);
  const AttentionOptions options{.mask = Mask::function(mask_function([](const Pair& at) { return at.key % 2 == 0; }))};
  attention_backward(q, k, k, q, log_sum_exp, grad_out, options, {.value = gradient});
  for (std::int64_t j = 0; j < 20; ++j) {
    EXPECT_NEAR(gradient.view().at<float>({0, j, 0}), j % 2 == 0 ? 0.2 : 0, 1e-6);
  }
}

TEST(AttentionFunctionErrors, TheDerivativeOfALogitFunctionIsUnknown) {
  const Tensor q = testing::filled({1, 2, 4}, 1), log_sum_exp = testing::filled({1, 2}, 1);
  AttentionOptions options;
  options.logit_function = logit_function([](auto logit, const Pair&) { return logit; });
  EXPECT_THROW(attention_backward(q, q, q, q, log_sum_exp, q, options, {}), std::invalid_argument);
}

TEST(AttentionFunctionErrors, ExceptionsReachTheCaller) {
  const Tensor q = testing::filled({1, 2, 4}, 1);
  const MaskFunction throws = mask_function([](const Pair&) -> bool { throw std::runtime_error("mine"); });
  EXPECT_THROW(attention(q, q, q, {.mask = Mask::function(throws)}), std::runtime_error);
}

// Weights of keys 9, 6, 3 and 0: e^0, e^-sqrt(3), e^-sqrt(6), e^-3, over their sum.
TEST(AttentionFunctionExample, PrintsOneRowOfWeights) {
  FILE* pipe = popen(QKV_EXAMPLE, "r");
  ASSERT_NE(pipe, nullptr);
  char line[256] = {};
  EXPECT_NE(std::fgets(line, sizeof line, pipe), nullptr);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_STREQ(line, "0.038 0.000 0.000 0.066 0.000 0.000 0.135 0.000 0.000 0.762 \n");
}

}  // namespace
}  // namespace qkv
