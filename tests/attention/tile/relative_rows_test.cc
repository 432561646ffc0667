// Shaw's table: the same bits for any threads and beside any neighbours, and what is refused. Torch's numbers:
// golden_test.cc; random combinations: attention_grid_test.cc and attention_backward_grid_test.cc.
#include "attention/backward/attention_backward_testing.h"
#include "io/files_for_test.h"

namespace qkv {
namespace {

QKV_ON_EACH_TARGET(RelativeRows);

TEST_P(RelativeRows, TheSameBitsForAnyThreadsAndNeighbours) {
  Random random(1);
  const Tensor q = testing::normal(random, {2, 3, 130, 24}), k = testing::normal(random, {2, 3, 1100, 24});
  const Tensor v = testing::normal(random, {2, 3, 1100, 24}), grad_out = testing::normal(random, {1, 3, 130, 24});
  const Tensor table = testing::normal(random, {2 * 60 + 1, 24}, Dtype::f32, 0.2);
  AttentionOptions options{
      .mask = Mask::causal(Align::bottom_right), .bias = Bias::table(RelativeTable::shaw(table)), .threads = 1};
  const auto gradients = [&] {
    const auto of_first = [](const Tensor& tensor) { return tensor.view().slice(0, 0, 1); };
    return testing::backward(of_first(q), of_first(k), of_first(v), grad_out, options);
  };
  const Tensor out = attention(q, k, v, options);
  const Tensor last = attention(q.view().slice(2, 101, 130), k, v, options);  // the last queries alone
  EXPECT_TRUE(testing::same_bits(last, out.view().slice(2, 101, 130)));
  const testing::Gradients one = gradients();
  for (const int threads : {2, 3, 16}) {
    SCOPED_TRACE(threads);
    options.threads = threads;
    EXPECT_TRUE(testing::same_bits(attention(q, k, v, options), out));
    testing::expect_same(gradients(), one);
  }
}

TEST(RelativeRowsArguments, Refused) {
  const Tensor q = Tensor::zeros({1, 2, 5, 8}), table = Tensor::zeros({7, 8}), other = Tensor::zeros({7, 6});
  const Tensor even = Tensor::zeros({6, 8}), wide = Tensor::zeros({2 * 513 + 1, 8}), w = Tensor::zeros({8, 8});
  const Bias bias = Bias::table(RelativeTable::shaw(table));
  EXPECT_NO_THROW(attention(q, q, q, {.bias = bias}));
  const auto expect_refused = [](const char* part, const auto& call) {
    const std::string message = test::message_of<std::invalid_argument>(call);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const auto attend = [&](const Bias& own, const Score& score = Score::scaled_dot()) {
    return [&, own, score] { attention(q, q, q, {.bias = own, .score = score}); };
  };
  expect_refused("at most one table of Shaw's", attend(bias + bias));
  expect_refused("[7, 6] must have rows of head_dim 8", attend(Bias::table(RelativeTable::shaw(other))));
  expect_refused("score dot or scaled dot", attend(bias, Score::bilinear(w)));
  expect_refused("2 n + 1 rows, n at most 512", [&] { RelativeTable::shaw(even); });
  expect_refused("2 n + 1 rows, n at most 512", [&] { RelativeTable::shaw(wide); });
}

}  // namespace
}  // namespace qkv
