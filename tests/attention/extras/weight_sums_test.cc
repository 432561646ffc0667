// Statistics over many keys and queries against sums in double: sums of millions of weights lose none of them.
#include "attention/extras/weight_sums.h"

#include <map>

#include "attention/attention_testing.h"
#include "attention/plain_float.h"
#include "qkv/threads.h"

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

void reversed(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = tasks - 1; index >= 0; --index) task(context, index, 0);
}

// Whichever thread computes a block, and in whichever order a caller's pool begins them; sequences without queries or
// without keys lie between others, and the last block of the longest one has two queries.
TEST_P(WeightSums, HaveTheSameBitsOnAnyThreads) {
  if (GetParam() == "portable") GTEST_SKIP() << "2,900 keys by one lane take long";
  Random random(2);
  const Tensor offsets_query = Tensor::of<std::int32_t>({6}, {0, 0, 338, 339, 339, 500});
  const Tensor offsets_key = Tensor::of<std::int32_t>({6}, {0, 40, 2600, 2900, 2900, 2900});
  const Tensor q = normal(random, {500, 2, 16}, Dtype::f32, 3), k = normal(random, {2900, 2, 16});
  const auto sums_on = [&](int threads, const Mask& mask, std::int64_t rows, std::int64_t columns) {
    AttentionOptions options{.mask = mask, .threads = threads};
    options.offsets_query = offsets_query, options.offsets_key = offsets_key;
    std::pair<Tensor, Tensor> sums(testing::filled({2900, 2}, testing::kNan),
                                   testing::filled({5, 2, rows, columns}, testing::kNan));
    attention(q, k, k, options, {.received = sums.first, .block_weights = sums.second});
    return sums;
  };
  for (const Mask& mask : {Mask(), Mask::causal(Align::bottom_right), Mask::window(40, 300)}) {
    for (const auto& [rows, columns] : {std::pair<int, int>{1, 1}, {7, 5}, {400, 700}}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << columns);
      const auto alone = sums_on(1, mask, rows, columns);
      const auto expect_alone = [&](const std::pair<Tensor, Tensor>& sums) {
        EXPECT_TRUE(testing::same_bits(sums.first, alone.first));
        EXPECT_TRUE(testing::same_bits(sums.second, alone.second));
      };
      for (const int threads : {2, 5}) expect_alone(sums_on(threads, mask, rows, columns));
      set_parallel_runner(reversed);
      expect_alone(sums_on(3, mask, rows, columns));
      set_parallel_runner(nullptr);
    }
  }
}

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
  const Shape shapes[] = {{300, 4096, 1, 1},  {300, 4096, 7, 4},  {300, 4096, 7, 10},
                          {256, 32768, 1, 1}, {256, 32768, 1, 4}, {256, 32768, 7, 10}};
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

}  // namespace
}  // namespace qkv
