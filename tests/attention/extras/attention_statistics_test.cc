// Statistics by hand, beside the random grid: sums of millions of weights lose none of them, ties and rows of NaN.
#include "attention/attention_testing.h"
#include "attention/extras/weight_sums.h"
#include "attention/plain_float.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::normal;

// Of one head: what f64 says, and how far weights that are computed in plain float are from it.
struct ExactSums {
  std::vector<double> received, entropy, blocks;
  std::vector<double> received_error, block_error;  // of plain float's weights, summed in double

  ExactSums(const Tensor& q, const Tensor& k, std::int64_t parts, std::int64_t columns) {
    const std::int64_t q_len = q.size(0), k_len = k.size(0);
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    received.resize(at(k_len)), received_error.resize(at(k_len)), entropy.resize(at(q_len));
    blocks.resize(at(parts * columns)), block_error.resize(at(parts * columns));
    std::vector<double> pairs(at(parts * columns));
    const Tensor exact = reference::attention(q, k, k).weights, plain = testing::plain_weights(q, k, /*causal=*/false);
    for (std::int64_t pair = 0; pair < q_len * k_len; ++pair) {
      const std::int64_t i = pair / k_len, j = pair % k_len;
      const double weight = exact.data<double>()[pair], error = std::abs(double{plain.data<float>()[pair]} - weight);
      const std::size_t cell = at(i * parts / q_len * columns + j * columns / k_len);
      entropy[at(i)] -= weight > 0 ? weight * std::log(weight) : 0;
      received[at(j)] += weight, received_error[at(j)] += error;
      blocks[cell] += weight, block_error[cell] += error, pairs[cell] += 1;
    }
    for (std::size_t cell = 0; cell < blocks.size(); ++cell)
      blocks[cell] /= pairs[cell], block_error[cell] /= pairs[cell];
  }
};

// At most 1e-6 of the largest, and each at most twice as far off, relative to itself, as sums of plain weights are at
// most: what a single one of these is off may be 0 by chance.
void expect_sums(const char* name, const Tensor& got, const std::vector<double>& exact,
                 const std::vector<double>& error) {
  const std::vector<double> numbers = testing::values(got);
  ASSERT_EQ(numbers.size(), exact.size());
  double largest = 0, plain = 0, off = 0, relative = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, exact[i]);
    plain = std::max(plain, error[i] / exact[i]);
    off = std::max(off, std::abs(numbers[i] - exact[i]));
    relative = std::max(relative, std::abs(numbers[i] - exact[i]) / exact[i]);
  }
  EXPECT_LE(off, 1e-6 * largest) << name;
  EXPECT_LE(relative, 2 * plain) << name;
}

QKV_ON_EACH_TARGET(WeightSums);

// Averages over no parts are nobody's, beside what keys receive.
TEST_P(WeightSums, OfNoParts) {
  Random random(3);
  const Tensor q = normal(random, {2, 60, 16}), k = normal(random, {2, 300, 16});
  Tensor alone = testing::filled({2, 300}, testing::kNan), received = alone, blocks = testing::filled({2, 6, 6}, 77);
  attention(q, k, k, {.threads = 1}, {.received = alone});
  for (const auto& [rows, columns] : {std::pair<int, int>{0, 6}, {6, 0}, {0, 0}}) {
    const MutableTensorView none = blocks.view().slice(1, 0, rows).slice(2, 0, columns);
    attention(q, k, k, {.threads = 1}, {.received = received, .block_weights = none});
    EXPECT_TRUE(testing::same_bits(received, alone));
    attention(q, k, k, {.threads = 1}, {.block_weights = none});
  }
  for (const double number : testing::values(blocks)) EXPECT_EQ(number, 77);
}

TEST_P(WeightSums, LoseNothing) {
  for (const auto& [q_len, k_len, parts, spread] :
       {std::tuple(300, 4096, 7, 4), {256, 32768, 1, 1}, {256, 32768, 7, 10}}) {
    if (GetParam() == "portable" && k_len > 4096) continue;  // by one lane
    SCOPED_TRACE(::testing::Message() << q_len << " x " << k_len << ", spread " << spread);
    Random random(1);
    const Tensor q = normal(random, {q_len, 16}, Dtype::f32, spread), k = normal(random, {k_len, 16});
    const ExactSums exact(q, k, parts, 5);
    Tensor received = testing::filled({k_len}, testing::kNan), entropy = testing::filled({q_len}, testing::kNan);
    Tensor blocks = testing::filled({parts, 5}, testing::kNan);
    attention(q, k, k, {.threads = 1}, {.entropy = entropy, .received = received, .block_weights = blocks});
    expect_sums("received", received, exact.received, exact.received_error);
    expect_sums("blocks", blocks, exact.blocks, exact.block_error);
    EXPECT_LE(testing::difference(entropy, Tensor::of({q_len}, exact.entropy)),
              1e-6 * std::log(static_cast<double>(k_len)));
  }
}

QKV_ON_EACH_TARGET(AttentionStatistics);

TEST_P(AttentionStatistics, EqualWeightsKeepTheLowerKeyFirst) {
  const Tensor q = Tensor::zeros({1, 3, 4}), k = Tensor::zeros({1, 20, 4});
  Tensor keys = Tensor::zeros({1, 3, 5}, Dtype::i64), weights = Tensor::zeros({1, 3, 5});
  attention(q, k, k, {}, {.top_keys = keys, .top_weights = weights});
  for (std::int64_t at = 0; at < 15; ++at) EXPECT_EQ(keys.data<std::int64_t>()[at], at % 5);
}

// A query of NaN: its weights are NaN over all keys, as 0 / NaN is; so is what each key receives, and no other row.
// Equal logits: a row of n visible keys has weights 1 / n.
TEST_P(AttentionStatistics, WeightsOnOwnAndPreviousPosition) {
  const struct {
    std::int64_t q_len, k_len;
    Mask mask;
    std::vector<float> own, previous;
  } rows[] = {{3, 3, Mask::causal(), {1, 1 / 2.f, 1 / 3.f}, {0, 1 / 2.f, 1 / 3.f}},
              {2, 4, Mask::causal(Align::bottom_right), {1 / 3.f, 1 / 4.f}, {1 / 3.f, 1 / 4.f}},
              {4, 2, Mask(), {1 / 2.f, 1 / 2.f, 0, 0}, {0, 1 / 2.f, 1 / 2.f, 0}},  // positions behind all keys
              {4, 2, Mask::causal(Align::bottom_right), {0, 0, 1, 1 / 2.f}, {0, 0, 0, 1 / 2.f}},
              {4, 4, Mask::chunks(2), {1 / 2.f, 1 / 2.f, 1 / 2.f, 1 / 2.f}, {0, 1 / 2.f, 0, 1 / 2.f}},
              {1, 3, Mask::window(0, -1, Align::bottom_right), {1}, {0}},  // a single query
              {2, 0, Mask(), {0, 0}, {0, 0}}};
  for (const auto& row : rows) {
    const Tensor q = Tensor::zeros({row.q_len, 2}), k = Tensor::zeros({row.k_len, 2});
    Tensor own = testing::filled({row.q_len}, 7), previous = testing::filled({row.q_len}, 7);
    attention(q, k, k, {.mask = row.mask}, {.self_weight = own, .previous_weight = previous});
    for (std::int64_t i = 0; i < row.q_len; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_FLOAT_EQ(own.data<float>()[i], row.own[at]) << row.q_len << " x " << row.k_len << ", query " << i;
      EXPECT_FLOAT_EQ(previous.data<float>()[i], row.previous[at])
          << row.q_len << " x " << row.k_len << ", query " << i;
    }
  }
}

TEST_P(AttentionStatistics, ARowOfNanIsNanOverHiddenKeysToo) {
  Random random(3);
  Tensor q = normal(random, {1, 1, 100, 6});
  const Tensor k = normal(random, {1, 1, 330, 6});
  testing::put(q, {0, 0, 70, 2}, testing::kNan);
  const AttentionOptions options{.mask = Mask::window(20, 0)};
  Tensor weights = testing::filled({1, 1, 100, 330}, 77), received = testing::filled({1, 1, 330}, 77);
  attention(q, k, k, options, {.weights = weights});
  attention(q, k, k, options, {.received = received});
  EXPECT_LE(testing::difference(weights, reference::attention(q, k, k, options).weights), 2e-6);
  for (const double number : testing::values(received)) EXPECT_TRUE(std::isnan(number));
}

}  // namespace
}  // namespace qkv
