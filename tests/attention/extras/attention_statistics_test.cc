// Statistics of the weights against the same figures from whole rows of weights in double, by the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "attention/attention_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::normal;

QKV_ON_EACH_TARGET(AttentionStatistics);

struct Statistics {
  Tensor row_maximum, entropy, top_keys, top_weights, received, block_weights;

  Statistics(const Dims& rows, const Dims& keys, std::int64_t top, const Dims& blocks, Dtype dtype)
      : row_maximum(Tensor::uninitialized(rows, dtype)),
        entropy(Tensor::uninitialized(rows, dtype)),
        top_keys(Tensor::uninitialized(with(rows, top), Dtype::i64)),
        top_weights(Tensor::uninitialized(with(rows, top), dtype)),
        received(Tensor::uninitialized(keys, dtype)),
        block_weights(Tensor::uninitialized(blocks, dtype)) {}

  static Dims with(Dims shape, std::int64_t last) {
    shape.push_back(last);
    return shape;
  }
  AttentionExtras extras() {
    AttentionExtras extras;
    extras.row_maximum = row_maximum;
    extras.entropy = entropy;
    extras.top_keys = top_keys;
    extras.top_weights = top_weights;
    extras.received = received;
    extras.block_weights = block_weights;
    return extras;
  }
};

// Compares with the reference; q [batch, heads, q_len, size].
void expect_statistics(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                       double tolerance) {
  const std::int64_t batch = q.size(0), heads = q.size(1), q_len = q.size(2), k_len = k.size(2);
  const std::int64_t top = 3, parts = 5;
  const Dtype dtype = q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Statistics found({batch, heads, q_len}, {batch, heads, k_len}, top, {batch, heads, parts, parts}, dtype);
  attention(q, k, v, options, found.extras());
  const reference::AttentionResult whole = reference::attention(q, k, v, options);
  const auto number = [](const Tensor& tensor, const Dims& at) {
    return convert(tensor.view(), Dtype::f64).view().at<double>(at);
  };
  const Tensor maximum = convert(found.row_maximum.view(), Dtype::f64);
  const Tensor entropy = convert(found.entropy.view(), Dtype::f64);
  const Tensor weights = convert(found.top_weights.view(), Dtype::f64);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<double> received(static_cast<std::size_t>(k_len)), blocks(parts * parts), pairs(parts * parts);
      for (std::int64_t i = 0; i < q_len; ++i) {
        const double* row = &whole.weights.view().at<double>({b, h, i, 0});
        const double* logits = &whole.logits.view().at<double>({b, h, i, 0});
        double nats = 0;
        for (std::int64_t j = 0; j < k_len; ++j) {
          if (row[j] > 0) nats -= row[j] * std::log(row[j]);
          received[static_cast<std::size_t>(j)] += row[j];
          const auto cell = static_cast<std::size_t>(i * parts / q_len * parts + j * parts / k_len);
          blocks[cell] += row[j];
          pairs[cell] += 1;
        }
        const double sink = 1 - std::accumulate(row, row + k_len, 0.0);
        if (options.sinks && sink > 0) nats -= sink * std::log(sink);
        const double largest = *std::max_element(logits, logits + k_len);
        if (std::isinf(largest)) {
          EXPECT_EQ(maximum.view().at<double>({b, h, i}), largest);
        } else {
          EXPECT_NEAR(maximum.view().at<double>({b, h, i}), largest, tolerance * (1 + std::abs(largest)));
        }
        EXPECT_NEAR(entropy.view().at<double>({b, h, i}), nats, 4 * tolerance);
        std::vector<double> sorted(row, row + k_len);
        std::sort(sorted.rbegin(), sorted.rend());
        for (std::int64_t n = 0; n < top; ++n) {
          const std::int64_t key = found.top_keys.view().at<std::int64_t>({b, h, i, n});
          const double weight = weights.view().at<double>({b, h, i, n});
          if (n >= k_len || std::isinf(logits[key < 0 ? 0 : key]) || key < 0) {
            EXPECT_EQ(key, -1);
            EXPECT_EQ(weight, 0);
          } else {
            EXPECT_NEAR(weight, sorted[static_cast<std::size_t>(n)], tolerance) << "row " << i << " place " << n;
            EXPECT_NEAR(row[key], weight, tolerance);
          }
        }
      }
      for (std::int64_t j = 0; j < k_len; ++j) {
        EXPECT_NEAR(number(found.received, {b, h, j}), received[static_cast<std::size_t>(j)],
                    tolerance * (1 + received[static_cast<std::size_t>(j)]));
      }
      for (std::int64_t cell = 0; cell < parts * parts; ++cell) {
        const auto at = static_cast<std::size_t>(cell);
        const double average = pairs[at] == 0 ? 0 : blocks[at] / pairs[at];
        EXPECT_NEAR(number(found.block_weights, {b, h, cell / parts, cell % parts}), average, tolerance);
      }
    }
  }
}

TEST_P(AttentionStatistics, AgreeWithWholeRows) {
  Random random(1);
  for (const auto& [q_len, k_len] : {std::pair<int, int>{7, 9}, {50, 131}, {1, 40}, {3, 2}}) {
    const Tensor q = normal(random, {2, 4, q_len, 8}), k = normal(random, {2, 2, k_len, 8});
    const Tensor v = normal(random, {2, 2, k_len, 5});
    expect_statistics(q, k, v, {}, 1e-6);
    expect_statistics(q, k, v, {.mask = Mask::causal(Align::bottom_right), .soft_cap = 2}, 1e-6);
    const Tensor sinks = normal(random, {4});
    expect_statistics(q, k, v, {.sinks = sinks}, 1e-6);
    expect_statistics(q, k, v, {.mask = Mask::window(2, 5), .soft_cap = 2, .sinks = sinks}, 1e-6);
    const Tensor seen = testing::coin_flips(random, {2, 1, q_len, k_len}, 0.3);
    expect_statistics(q, k, v, {.mask = Mask::boolean(seen) & Mask::window(3, 20)}, 1e-6);
  }
}

TEST_P(AttentionStatistics, DoubleAndHalf) {
  Random random(2);
  for (const Dtype dtype : {Dtype::f64, Dtype::bf16, Dtype::f16}) {
    const Tensor q = normal(random, {1, 2, 20, 16}, dtype), k = normal(random, {1, 2, 33, 16}, dtype);
    expect_statistics(q, k, k, {.mask = Mask::causal()}, dtype == Dtype::f64 ? 1e-13 : 1e-6);
  }
}

TEST_P(AttentionStatistics, LongRows) {
  if (GetParam() == "portable") GTEST_SKIP() << "4,096 keys by one lane take a minute";
  Random random(3);
  const Tensor q = normal(random, {1, 1, 60, 64}), k = normal(random, {1, 1, 4096, 64});
  expect_statistics(q, k, k, {}, 1e-6);
}

TEST_P(AttentionStatistics, SameBitsForAnyNumberOfThreadsAndNoneInTheOutput) {
  Random random(4);
  const Tensor q = normal(random, {3, 2, 130, 8}), k = normal(random, {3, 2, 90, 8});
  const Tensor plain = attention(q, k, k);
  std::vector<Statistics> runs;
  for (const int count : {1, 2, 7}) {
    runs.emplace_back(Dims{3, 2, 130}, Dims{3, 2, 90}, 4, Dims{3, 2, 6, 6}, Dtype::f32);
    const Tensor out = attention(q, k, k, {.threads = count}, runs.back().extras());
    EXPECT_EQ(std::memcmp(out.view().bytes(), plain.view().bytes(), 4 * static_cast<std::size_t>(out.element_count())),
              0);
  }
  for (std::size_t run = 1; run < runs.size(); ++run) {
    for (const auto part : {&Statistics::row_maximum, &Statistics::entropy, &Statistics::top_weights,
                            &Statistics::received, &Statistics::block_weights}) {
      const Tensor &first = runs[0].*part, &other = runs[run].*part;
      const auto bytes = 4 * static_cast<std::size_t>(first.element_count());
      EXPECT_EQ(std::memcmp(first.view().bytes(), other.view().bytes(), bytes), 0);
    }
  }
}

TEST_P(AttentionStatistics, EqualWeightsKeepTheLowerKeyFirst) {
  const Tensor q = Tensor::zeros({1, 3, 4}), k = Tensor::zeros({1, 20, 4});
  Statistics found({1, 3}, {1, 20}, 5, {1, 2, 2}, Dtype::f32);
  attention(q, k, k, {}, found.extras());
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t n = 0; n < 5; ++n) EXPECT_EQ(found.top_keys.view().at<std::int64_t>({0, i, n}), n);
  }
}

TEST_P(AttentionStatistics, PackedRowsHaveThoseOfTheirSequence) {
  Random random(5);
  const Tensor q = normal(random, {7, 2, 4}), k = normal(random, {9, 2, 4});
  const Tensor offsets_query = Tensor::of<std::int32_t>({3}, {0, 1, 7});
  const Tensor offsets_key = Tensor::of<std::int32_t>({3}, {0, 4, 9});
  Statistics all({7, 2}, {9, 2}, 2, {2, 2, 1, 1}, Dtype::f32);
  attention(q, k, k, {.offsets_query = offsets_query, .offsets_key = offsets_key}, all.extras());
  const TensorView q1 = q.view().slice(0, 1, 7).transpose(0, 1), k1 = k.view().slice(0, 4, 9).transpose(0, 1);
  Statistics alone({2, 6}, {2, 5}, 2, {2, 1, 1}, Dtype::f32);
  attention(q1, k1, k1, {}, alone.extras());
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(all.entropy.view().at<float>({1 + i, h}), alone.entropy.view().at<float>({h, i}));
      EXPECT_EQ(all.top_keys.view().at<std::int64_t>({1 + i, h, 1}), alone.top_keys.view().at<std::int64_t>({h, i, 1}));
    }
    for (std::int64_t j = 0; j < 5; ++j) {
      EXPECT_EQ(all.received.view().at<float>({4 + j, h}), alone.received.view().at<float>({h, j}));
    }
    EXPECT_EQ(all.block_weights.view().at<float>({1, h, 0, 0}), alone.block_weights.view().at<float>({h, 0, 0}));
  }
}

TEST(AttentionStatisticsArguments, AreChecked) {
  const Tensor q = Tensor::zeros({2, 3, 4});
  Tensor keys = Tensor::zeros({2, 3, 2}, Dtype::i64), wrong = Tensor::zeros({2, 2}),
         narrow = Tensor::zeros({2, 3}, Dtype::bf16);
  const auto message = [&](const AttentionExtras& extras) -> std::string {
    try {
      attention(q, q, q, {}, extras);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message({.top_keys = keys}).find("top_keys and top_weights must be given together"), std::string::npos);
  EXPECT_NE(message({.entropy = wrong}).find("entropy must be [2, 3], got [2, 2]"), std::string::npos);
  EXPECT_NE(message({.entropy = narrow}).find("entropy is bf16; it must be f32"), std::string::npos);
  EXPECT_NE(message({.received = wrong}).find("received must be [2, 3], got [2, 2]"), std::string::npos);
}

}  // namespace
}  // namespace qkv
