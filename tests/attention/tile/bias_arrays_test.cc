// Biases that are arrays, behind a mask, and what of Shaw's tables is refused. Wherever their numbers lie:
// same_bits_test.cc; random combinations, also of tables: the grids; torch's numbers of Shaw's table: golden_test.cc.
#include "attention/tangent/attention_tangents_testing.h"
#include "io/files_for_test.h"

namespace qkv {
namespace {

using testing::kNan;
using testing::MovingArrays;
using testing::normal;

QKV_ON_EACH_TARGET(BiasArrays);

// NaN where the mask hides the pair changes nothing, in any pass.
TEST_P(BiasArrays, NanBehindAMask) {
  Random random(3);
  const MovingArrays arrays({1, 2, 60, 8}, {1, 2, 60, 8}, 8);
  const Tensor visible = normal(random, {1, 2, 60, 60});
  Tensor values = visible;
  for (std::int64_t i = 0; i < values.element_count(); ++i) {
    if (i % 60 > i / 60 % 60) values.data<float>()[i] = static_cast<float>(kNan);
  }
  const auto options_of = [](const Tensor& bias) {
    return AttentionOptions{.mask = Mask::causal(), .bias = Bias::view(bias) + Bias::view(bias)};
  };
  const AttentionOptions options = options_of(values), wanted = options_of(visible);
  expect_same(testing::attend(arrays.q, arrays.k, arrays.v, options),
              testing::attend(arrays.q, arrays.k, arrays.v, wanted));
  testing::expect_same(testing::backward(arrays.q, arrays.k, arrays.v, arrays.grad_out, options),
                       testing::backward(arrays.q, arrays.k, arrays.v, arrays.grad_out, wanted));
  testing::expect_same(testing::jvp(arrays, options), testing::jvp(arrays, wanted));
}

TEST(RelativeRowsArguments, Refused) {
  const Tensor q = Tensor::zeros({1, 2, 5, 8}), table = Tensor::zeros({7, 8}), other = Tensor::zeros({7, 6});
  const Tensor even = Tensor::zeros({6, 8}), wide = Tensor::zeros({2 * 513 + 1, 8}), w = Tensor::zeros({8, 8});
  const Bias bias = Bias::shaw(table);
  EXPECT_NO_THROW(attention(q, q, q, {.bias = bias}));
  const auto expect_refused = [](const char* part, const auto& call) {
    const std::string message = test::message_of<std::invalid_argument>(call);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_refused("at most one table of Shaw's", [&] { attention(q, q, q, {.bias = bias + bias}); });
  expect_refused("[7, 6] must have rows of head_dim 8", [&] { attention(q, q, q, {.bias = Bias::shaw(other)}); });
  expect_refused("score dot or scaled dot", [&] { attention(q, q, q, {.bias = bias, .score = Score::bilinear(w)}); });
  expect_refused("2 n + 1 rows, n at most 512", [&] { RelativeTable::shaw(even); });
  expect_refused("2 n + 1 rows, n at most 512", [&] { RelativeTable::shaw(wide); });
}

}  // namespace
}  // namespace qkv
