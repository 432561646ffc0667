// Dropout inside the kernels keeps what dropout_mask() keeps: on every target, in every type, in decoding, and in each
// gradient.
#include "attention/attention_case.h"
#include "attention/backward/attention_backward_testing.h"

namespace qkv {
namespace {

using testing::filled;
using testing::normal;

constexpr Dtype kFloating[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16};

QKV_ON_EACH_TARGET(AttentionDropout);

// Equal scores make weights 1 / k_len, and values [i == j] make them the output.
TEST_P(AttentionDropout, OutputShowsTheMask) {
  const Dropout dropout{.p = 0.3, .seed = 0xfedcba9876543210};
  const double rate = std::round(0.7 * 65536) / 65536;
  for (const Dtype dtype : kFloating) {
    for (const std::int64_t q_len : {1, 2, 17, 50}) {
      for (const std::int64_t k_len : {1, 7, 8, 61, 64, 200, 1030}) {
        SCOPED_TRACE(std::to_string(q_len) + " x " + std::to_string(k_len));
        const std::int64_t shown = std::min<std::int64_t>(k_len, 70);  // the last keys
        Tensor v = filled({2, 1, k_len, shown}, 0, Dtype::f64);
        for (std::int64_t n = 0; n < shown; ++n) {
          for (std::int64_t b = 0; b < 2; ++b) v.view().at<double>({b, 0, k_len - shown + n, n}) = 1;
        }
        const Tensor out = convert(attention(filled({2, 3, q_len, 4}, 1, dtype), filled({2, 1, k_len, 4}, 1, dtype),
                                             convert(v, dtype), {.dropout = dropout, .threads = 2}),
                                   Dtype::f64);
        Tensor kept = filled({2, 3, q_len, shown}, 0, Dtype::u8);
        dropout_mask(dropout, kept, {.key = k_len - shown});
        const double weight = 1 / (rate * static_cast<double>(k_len));
        for (std::int64_t i = 0; i < out.element_count(); ++i) {
          const double wanted = kept.data<std::uint8_t>()[i] * weight;
          const double error = dtype == Dtype::f64 ? 1e-15 : 1e-6 + testing::rounding(dtype);
          ASSERT_NEAR(out.data<double>()[i], wanted, error * wanted) << i;
        }
      }
    }
  }
}

// The rule of docs/semantics.md by hand, over keys whose numbers and blocks of eight outgrow 8, 12 and 13 bits: out is
// the mean of the values that are kept, and a value's gradient shows whether it was.
TEST_P(AttentionDropout, LongRowsKeepTheRule) {
  constexpr std::int64_t kKeys = 20'000;
  const std::uint64_t seed = 0x123456789;
  const double threshold = std::round(0.6 * 65536), factor = 65536 / threshold;
  Random random(3);
  const Tensor k = filled({1, kKeys, 1}, 1, Dtype::f64), v = normal(random, {1, kKeys, 3}, Dtype::f64);
  for (const std::int64_t q_len : {1, 3}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const Tensor q = filled({1, q_len, 1}, 1, dtype), keys = convert(k, dtype), values = convert(v, dtype);
      const AttentionOptions options{.dropout = {.p = 0.4, .seed = seed}, .threads = 2};
      const Tensor out = convert(attention(q, keys, values, options), Dtype::f64);
      const Tensor of_values =
          convert(testing::backward(q, keys, values, filled({1, q_len, 3}, 1, dtype), options).value, Dtype::f64);
      std::vector<double> kept(kKeys);  // by how many queries
      for (std::int64_t i = 0; i < q_len; ++i) {
        double sum[3] = {};
        for (std::int64_t j = 0; j < kKeys; ++j) {
          const auto bits = philox({static_cast<std::uint32_t>(j / 8), static_cast<std::uint32_t>(i), 0, 0}, seed, 7);
          const std::uint32_t word = bits[static_cast<std::size_t>(j % 8 / 2)] >> (16 * (j % 2)) & 0xffff;
          if (word >= threshold) continue;
          kept[static_cast<std::size_t>(j)] += 1;
          for (std::int64_t e = 0; e < 3; ++e) sum[e] += factor / kKeys * v.view().at<double>({0, j, e});
        }
        for (std::int64_t e = 0; e < 3; ++e) {
          EXPECT_NEAR(out.view().at<double>({0, i, e}), sum[e], dtype == Dtype::f64 ? 1e-14 : 1e-6);
        }
      }
      for (std::int64_t j = 0; j < kKeys; ++j) {
        const double wanted = kept[static_cast<std::size_t>(j)] * factor / kKeys;
        ASSERT_NEAR(of_values.view().at<double>({0, j, 1}), wanted, 1e-6 * wanted) << "key " << j;
      }
    }
  }
}

// What is asked for besides the output is of the weights before dropout.
TEST_P(AttentionDropout, ExtrasDoNotChange) {
  Random random(1);
  for (const std::int64_t q_len : {1, 40}) {
    const Tensor q = normal(random, {1, 2, q_len, 8}), k = normal(random, {1, 2, 90, 8});
    const testing::Outcome with = testing::attend(q, k, k, {.dropout = {.p = 0.5, .seed = 1}});
    const testing::Outcome without = testing::attend(q, k, k);
    EXPECT_TRUE(testing::same_bits(with.log_sum_exp, without.log_sum_exp));
    EXPECT_TRUE(testing::same_bits(with.weights, without.weights));
    EXPECT_TRUE(testing::same_bits(with.logits, without.logits));
    EXPECT_GT(testing::difference(with.out, without.out), 0.1);
  }
}

TEST_P(AttentionDropout, NothingKeptIsZero) {
  Random random(2);
  const Tensor q = normal(random, {1, 2, 9, 8});
  const AttentionOptions options{.dropout = {.p = 1}};
  EXPECT_EQ(testing::largest(attention(q, q, q, options)), 0);
  const testing::Gradients gradients = testing::backward(q, q, q, q, options);
  for (const Tensor* gradient : {&gradients.query, &gradients.key, &gradients.value}) {
    for (const double number : testing::values(*gradient)) ASSERT_EQ(number, 0);
  }
}

TEST_P(AttentionDropout, ATinyProbabilityIsOff) {
  Random random(3);
  const Tensor q = normal(random, {1, 2, 9, 8});
  EXPECT_TRUE(testing::same_bits(attention(q, q, q, {.dropout = {.p = 1e-6}}), attention(q, q, q)));
}

TEST_P(AttentionDropout, TheSameBitsForAnyNumberOfThreads) {
  for (const Dtype dtype : kFloating) {
    Random random(5);
    const Tensor q = normal(random, {1, 2, 130, 16}, dtype), k = normal(random, {1, 1, 2100, 16}, dtype);
    AttentionOptions options{.mask = Mask::causal(Align::bottom_right), .dropout = {.p = 0.2, .seed = 6}, .threads = 1};
    const Tensor out = attention(q, k, k, options);
    const testing::Gradients one = testing::backward(q, k, k, q, options);
    for (const int threads : {2, 3, 4, 7, 16}) {
      options.threads = threads;
      EXPECT_TRUE(testing::same_bits(attention(q, k, k, options), out)) << threads;
      testing::expect_same(testing::backward(q, k, k, q, options), one);
    }
  }
}

// Indices are those within the sequence.
TEST_P(AttentionDropout, PackedEqualsPadded) {
  Random random(6);
  const Tensor q = normal(random, {3, 50, 2, 16}), k = normal(random, {3, 90, 1, 16});  // [batch, length, heads, size]
  const std::vector<std::int32_t> counts = {90, 33, 60};
  const Dropout dropout{.p = 0.4, .seed = 8};
  const auto turned = [](const Tensor& rows) { return rows.view().transpose(1, 2); };
  const Tensor lengths = Tensor::of({3}, counts), q_offsets = Tensor::of<std::int32_t>({4}, {0, 50, 100, 150}),
               k_offsets = Tensor::of<std::int32_t>({4}, {0, 90, 123, 183});
  const AttentionOptions padded_options{.mask = Mask::lengths(lengths), .dropout = dropout};
  Tensor packed_k = Tensor::uninitialized({183, 1, 16});
  std::int64_t row = 0;
  for (std::int64_t b = 0; b < 3; row += counts[static_cast<std::size_t>(b++)]) {
    const std::int64_t count = counts[static_cast<std::size_t>(b)];
    convert(k.view().select(0, b).slice(0, 0, count), packed_k.view().slice(0, row, row + count));
  }
  const TensorView packed_q = q.view().reshape({150, 2, 16});
  const AttentionOptions packed_options{.dropout = dropout, .offsets_query = q_offsets, .offsets_key = k_offsets};
  const Tensor padded = Tensor::copy(attention(turned(q), turned(k), turned(k), padded_options).view().transpose(1, 2));
  const Tensor packed = attention(packed_q, packed_k, packed_k, packed_options);
  EXPECT_TRUE(testing::same_bits(packed.view().reshape(padded.shape()), padded));
  const testing::Gradients padded_gradients =
      testing::backward(turned(q), turned(k), turned(k), turned(q), padded_options);
  const testing::Gradients packed_gradients = testing::backward(packed_q, packed_k, packed_k, packed_q, packed_options);
  EXPECT_TRUE(testing::same_bits(packed_gradients.query.view().reshape(q.shape()),
                                 Tensor::copy(padded_gradients.query.view().transpose(1, 2))));
}

// A masked key stays out even if its weight was drawn to be kept, or to be dropped.
TEST_P(AttentionDropout, MaskedNanStaysOut) {
  for (const Dtype dtype : kFloating) {
    for (const std::int64_t q_len : {1, 20}) {
      Random random(4);
      const Tensor q = normal(random, {1, 1, q_len, 8}, dtype), k = normal(random, {1, 1, 40, 8}, dtype);
      Tensor v = normal(random, {1, 1, 40, 8}, Dtype::f64);
      Tensor visible = testing::coin_flips(random, {q_len, 40}, 0.5);
      for (std::int64_t i = 0; i < q_len; ++i) visible.view().at<bool>({i, 11}) = false;
      const AttentionOptions options{.mask = Mask::boolean(visible), .dropout = {.p = 0.5, .seed = 5}};
      const Tensor wanted = attention(q, k, convert(v, dtype), options);
      for (std::int64_t e = 0; e < 8; ++e) v.view().at<double>({0, 0, 11, e}) = testing::kNan;
      EXPECT_TRUE(testing::same_bits(attention(q, k, convert(v, dtype), options), wanted));
    }
  }
}

}  // namespace
}  // namespace qkv
