// Statistics by hand, beside the random grid: sums of millions of weights lose none of them, ties and rows of NaN.
#include <map>

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
    const std::int64_t q_len = q.size(0), k_len = k.size(0), size = q.size(1);
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    received.resize(at(k_len)), received_error.resize(at(k_len));
    blocks.resize(at(parts * columns)), block_error.resize(at(parts * columns));
    std::vector<double> pairs(at(parts * columns)), weights(at(k_len));
    std::vector<float> plain(at(k_len));
    const float scale = 1 / std::sqrt(static_cast<float>(size));
    for (std::int64_t i = 0; i < q_len; ++i) {
      double largest = -testing::kInfinity, sum = 0, mean = 0;
      float plain_largest = -std::numeric_limits<float>::infinity(), plain_sum = 0;
      for (std::int64_t j = 0; j < k_len; ++j) {
        const float *query = testing::row(q, i), *key = testing::row(k, j);
        double product = 0;
        for (std::int64_t e = 0; e < size; ++e) product += double{query[e]} * double{key[e]};
        largest = std::max(largest, weights[at(j)] = product / std::sqrt(static_cast<double>(size)));
        plain_largest = std::max(plain_largest, plain[at(j)] = scale * testing::dot(query, key, size));
      }
      for (std::int64_t j = 0; j < k_len; ++j) {
        const double logit = weights[at(j)] - largest;
        sum += weights[at(j)] = std::exp(logit);
        mean += weights[at(j)] * logit;
        plain_sum += plain[at(j)] = std::exp(plain[at(j)] - plain_largest);
      }
      entropy.push_back(std::log(sum) - mean / sum);
      for (std::int64_t j = 0; j < k_len; ++j) {
        const double weight = weights[at(j)] / sum, error = std::abs(double{plain[at(j)] / plain_sum} - weight);
        const std::size_t cell = at(i * parts / q_len * columns + j * columns / k_len);
        received[at(j)] += weight, received_error[at(j)] += error;
        blocks[cell] += weight, block_error[cell] += error, pairs[cell] += 1;
      }
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

struct Shape {
  std::int64_t q_len, k_len, parts;
  double spread;
};

struct Problem {
  explicit Problem(const Shape& shape)
      : q(normal(random, {shape.q_len, 16}, Dtype::f32, shape.spread)),
        k(normal(random, {shape.k_len, 16})),
        exact(q, k, shape.parts, 5) {}
  Random random{1};
  Tensor q, k;
  ExactSums exact;
};

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
  static std::map<std::size_t, Problem> problems;  // once for all targets
  const Shape shapes[] = {{300, 4096, 7, 4}, {256, 32768, 1, 1}, {256, 32768, 7, 10}};
  for (std::size_t n = 0; n < std::size(shapes); ++n) {
    const Shape& shape = shapes[n];
    if (GetParam() == "portable" && shape.k_len > 4096) continue;  // by one lane
    SCOPED_TRACE(::testing::Message() << shape.q_len << " x " << shape.k_len << ", spread " << shape.spread);
    const auto& [random, q, k, exact] = problems.try_emplace(n, shape).first->second;
    Tensor received = testing::filled({shape.k_len}, testing::kNan),
           entropy = testing::filled({shape.q_len}, testing::kNan);
    Tensor blocks = testing::filled({shape.parts, 5}, testing::kNan);
    attention(q, k, k, {.threads = 1}, {.entropy = entropy, .received = received, .block_weights = blocks});
    expect_sums("received", received, exact.received, exact.received_error);
    expect_sums("blocks", blocks, exact.blocks, exact.block_error);
    EXPECT_LE(testing::difference(entropy, Tensor::of({shape.q_len}, exact.entropy)),
              1e-6 * std::log(static_cast<double>(shape.k_len)));
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
