// Gradients of scores whose keys have another size than queries, of places with strides, and the order of sums. Biases,
// tables, slopes, sinks, masks, caps, dropout, packed rows and empty sizes: derivatives_grid_test.cc.
#include "attention/backward/attention_backward_testing.h"
#include "attention/backward/parameter_sums.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::normal;

QKV_ON_EACH_TARGET(ParameterGradients);

// Keys of size 5 for queries of size 8, over fewer heads, and over more keys than a chunk has. Within some hundred
// roundings, of f32 or f64, of a sum of numbers near 1. Halves also round the output that is subtracted, and gradients.
TEST_P(ParameterGradients, OfKeysOfAnotherSize) {
  Random random(1);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    const auto draw = [&](const Dims& shape, double spread) {
      return normal(random, shape, testing::accumulation_of(dtype), spread);
    };
    const double small = 1 / std::sqrt(8.0), of_sum = dtype == Dtype::f64 ? 2e-14 : 1e-5 + 8 * testing::rounding(dtype);
    const Tensor w = draw({8, 5}, small / std::sqrt(5.0)), both = draw({20, 13}, small), factors = draw({20}, 1),
                 w_query = draw({20, 8}, small), w_key = draw({20, 5}, small);
    for (const Score& score :
         {Score::bilinear(w), Score::concat(both, factors), Score::additive(w_query, w_key, factors)}) {
      for (const auto& [queries, keys] : {std::pair(Dims{1, 4, 53}, Dims{1, 2, 70}), {{5}, {1100}}}) {
        SCOPED_TRACE(fmt::format("{} score {}", name_of(dtype), static_cast<int>(score.kind())));
        const auto rows = [&](Dims shape, std::int64_t size) {
          shape.push_back(size);
          return normal(random, shape, dtype);
        };
        const Tensor q = rows(queries, 8), k = rows(keys, 5), v = rows(keys, 6), grad_out = rows(queries, 6);
        const reference::AttentionGradients exact = reference::attention_backward(q, k, v, grad_out, {.score = score});
        const testing::Gradients got = testing::backward(q, k, v, grad_out, {.score = score});
        for (const auto& [own, wanted] : {std::pair(&got.query, &exact.query),
                                          {&got.key, &exact.key},
                                          {&got.value, &exact.value},
                                          {&got.score_w_query, &exact.score.w_query},
                                          {&got.score_w_key, &exact.score.w_key},
                                          {&got.score_v, &exact.score.v}}) {
          EXPECT_LE(testing::difference(*own, *wanted), of_sum * std::max(1.0, testing::largest(*wanted)));
        }
      }
    }
  }
}

TEST_P(ParameterGradients, PlacesWithStridesAndPlacesNotGiven) {
  Random random(1);
  const Tensor q = normal(random, {1, 2, 20, 8}), k = normal(random, {1, 2, 40, 8}), one = normal(random, {2, 20, 40}),
               two = normal(random, {20, 40});
  const AttentionOptions options{.bias = Bias::view(one) + Bias::view(two)};
  Tensor turned = testing::filled({40, 20}, testing::kNan);
  const MutableTensorView place = turned.view().transpose(0, 1);
  const testing::Forward kept = testing::forward(q, k, k, options);
  attention_backward(q, k, k, kept.out, kept.log_sum_exp, q, options, {.bias = {{}, place}});
  EXPECT_TRUE(testing::same_bits(place, testing::backward(q, k, k, q, options).bias[1]));
}

// Shares of chunks whose sum in order is 0, and in any other order is not.
TEST(ParameterSums, ChunksWaitForTheirTurn) {
  const Tensor q = Tensor::zeros({1, 3, 4}, Dtype::f64), k = Tensor::zeros({1, 3000, 4}, Dtype::f64);
  const Tensor table = Tensor::zeros({1, 1}, Dtype::f64);
  const AttentionOptions options{.bias = Bias::clipped(table)};
  Tensor gradient = Tensor::zeros({1, 1}, Dtype::f64);
  const AttentionGradients gradients{.tables = {gradient.view()}};
  const AttentionCall call(q, k, k, options);
  ParameterSums sums(call, options, gradients);
  sums.begin(/*threads=*/3, /*blocks=*/1);
  const double shares[] = {1, 0x1p53, -0x1p53};
  std::atomic<int> begun = 0;
  const auto finish = [&](int chunk) {
    *reinterpret_cast<double*>(sums.share(chunk)) = shares[chunk];
    sums.finish_share(chunk);
    ++begun;
    sums.finish_chunk(chunk, 0, 0, /*predecessors=*/chunk);
  };
  std::thread last(finish, 2), middle(finish, 1);
  while (begun < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for a thread that would not wait
  finish(0);
  last.join();
  middle.join();
  sums.write();
  EXPECT_EQ(gradient.data<double>()[0], 0);
}

}  // namespace
}  // namespace qkv
