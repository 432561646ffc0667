// A user's own mask and change of the logits: the same as the library's own ones that say the same.
#include "qkv/attention/attention_function.h"

#include <cstdio>
#include <stdexcept>

#include "attention/attention_testing.h"
#include "qkv/attention/attention_backward.h"

namespace qkv {
namespace {

QKV_ON_EACH_TARGET(AttentionFunction);

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
