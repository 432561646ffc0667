// The reproducibility contract: a row has the same bits for any number of threads, any other sequences in the batch,
// padded, cropped or packed, any strides, and whole or in chunks of at least two queries.
#include <algorithm>

#include "attention/attention_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::Outcome;

// Everything of a call. Asked for less, in which case heads may share a block, and threads the keys, the output and the
// log-sum-exp have the same bits.
Outcome attend(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options = {}) {
  Outcome all = testing::attend(q, k, v, options);
  const testing::PlainOutcome plain = testing::attend_plainly(q, k, v, options);
  EXPECT_TRUE(testing::same_bits(plain.out, all.out)) << "output and log-sum-exp alone";
  EXPECT_TRUE(testing::same_bits(plain.log_sum_exp, all.log_sum_exp)) << "output and log-sum-exp alone";
  EXPECT_TRUE(testing::same_bits(attention(q, k, v, options), all.out)) << "output alone";
  return all;
}

// Bits that agree may all be wrong.
void expect_like_reference(const Outcome& got, const TensorView& q, const TensorView& k, const TensorView& v,
                           const AttentionOptions& options) {
  if (q.dtype() != Dtype::f32) return;
  const reference::AttentionResult exact = reference::attention(q, k, v, options);
  EXPECT_LE(testing::difference(got.out, exact.out), 4e-6 * testing::largest(v));
  EXPECT_LE(testing::difference(got.log_sum_exp, exact.log_sum_exp), 4e-6 * (1 + testing::largest(exact.log_sum_exp)));
}

constexpr Dtype kFloating[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16};

QKV_ON_EACH_TARGET(AttentionBitwise);

TEST_P(AttentionBitwise, AnyNumberOfThreads) {
  for (const Dtype dtype : kFloating) {
    Random random(1);
    for (const std::int64_t q_len : {1, 2, 130}) {
      const Tensor q = testing::normal(random, {1, 3, q_len, 32}, dtype);
      const Tensor k = testing::normal(random, {1, 3, 2100, 32}, dtype);
      const Tensor v = testing::normal(random, {1, 3, 2100, 16}, dtype);
      const Mask mask = Mask::causal(Align::bottom_right);
      const Outcome one = attend(q, k, v, {.mask = mask, .threads = 1});
      expect_like_reference(one, q, k, v, {.mask = mask});
      for (const int threads : {2, 3, 4, 7, 16}) {
        SCOPED_TRACE(threads);
        expect_same(one, attend(q, k, v, {.mask = mask, .threads = threads}));
      }
    }
  }
}

// One ragged batch in its three forms. Query i of sequence b is row q_offsets[b] + i.
struct Ragged {
  Ragged(Dtype dtype, const std::vector<std::int32_t>& q_rows, const std::vector<std::int32_t>& k_rows)
      : q_offsets(Tensor::of({static_cast<std::int64_t>(q_rows.size())}, q_rows)),
        k_offsets(Tensor::of({static_cast<std::int64_t>(k_rows.size())}, k_rows)) {
    Random random(2);
    q = testing::normal(random, {q_rows.back(), 4, 16}, dtype);
    k = testing::normal(random, {k_rows.back(), 2, 16}, dtype);
    v = testing::normal(random, {k_rows.back(), 2, 24}, dtype);
  }
  // Sequence b of a packed array as [heads, length, size], without a copy.
  static TensorView part(const Tensor& packed, const Tensor& offsets, std::int64_t b) {
    const std::int32_t* rows = offsets.data<std::int32_t>();
    return packed.view().slice(0, rows[b], rows[b + 1]).transpose(0, 1);
  }
  Tensor q_offsets, k_offsets, q, k, v;
};

const Tensor& slopes() {
  static const Tensor tensor = Tensor::of<float>({4}, {0.1f, 0.01f, 0.5f, 0});
  return tensor;
}

std::vector<AttentionOptions> positional_options() {
  return {{},
          {.mask = Mask::causal(Align::top_left)},
          {.mask = Mask::causal(Align::bottom_right), .bias = Bias::alibi(slopes())},
          {.mask = Mask::window(40, 3, Align::bottom_right), .soft_cap = 3}};
}

TEST_P(AttentionBitwise, PackedEqualsEachSequenceAlone) {
  for (const Dtype dtype : kFloating) {
    // Lengths 70, 1, 0, 2, 130 against 70, 40, 5, 0, 1150.
    const Ragged batch(dtype, {0, 70, 71, 71, 73, 203}, {0, 70, 110, 115, 115, 1265});
    for (AttentionOptions options : positional_options()) {
      std::vector<Outcome> alone;
      for (std::int64_t b = 0; b < 5; ++b) {
        alone.push_back(attend(Ragged::part(batch.q, batch.q_offsets, b), Ragged::part(batch.k, batch.k_offsets, b),
                               Ragged::part(batch.v, batch.k_offsets, b), options));
      }
      options.offsets_query = batch.q_offsets;
      options.offsets_key = batch.k_offsets;
      const Outcome packed = attend(batch.q, batch.k, batch.v, options);
      expect_like_reference(packed, batch.q, batch.k, batch.v, options);
      for (std::int64_t b = 0; b < 5; ++b) {
        SCOPED_TRACE(b);
        const Outcome& own = alone[static_cast<std::size_t>(b)];
        const std::int64_t k_len = own.weights.size(-1), longest = packed.weights.size(-1);
        const auto rows = [&](const Tensor& tensor) { return Ragged::part(tensor, batch.q_offsets, b); };
        EXPECT_TRUE(testing::same_bits(rows(packed.out), own.out));
        EXPECT_TRUE(testing::same_bits(rows(packed.log_sum_exp), own.log_sum_exp));
        EXPECT_TRUE(testing::same_bits(rows(packed.weights).slice(2, 0, k_len), own.weights));
        EXPECT_TRUE(testing::same_bits(rows(packed.logits).slice(2, 0, k_len), own.logits));
        EXPECT_EQ(testing::largest(rows(packed.weights).slice(2, k_len, longest)), 0);
        for (const double logit : testing::values(rows(packed.logits).slice(2, k_len, longest))) {
          ASSERT_EQ(logit, -testing::kInfinity);
        }
      }
    }
  }
}

TEST_P(AttentionBitwise, PaddedEqualsCropped) {
  const std::vector<std::int32_t> counts = {1140, 1, 0, 70, 129};
  const Tensor lengths = Tensor::of({5}, counts);
  for (const Dtype dtype : kFloating) {
    Random random(3);
    const Tensor q = testing::normal(random, {5, 4, 60, 16}, dtype),
                 k = testing::normal(random, {5, 2, 1140, 16}, dtype);
    const Tensor v = testing::normal(random, {5, 2, 1140, 24}, dtype);
    for (AttentionOptions options : positional_options()) {
      AttentionOptions padded_options = options;
      padded_options.mask = options.mask & Mask::lengths(lengths);
      const Outcome padded = attend(q, k, v, padded_options);
      if (options.mask.left() < 0) expect_like_reference(padded, q, k, v, padded_options);
      for (std::int64_t b = 0; b < 5; ++b) {
        SCOPED_TRACE(b);
        const std::int64_t length = counts[static_cast<std::size_t>(b)];
        const auto crop = [&](const Tensor& tensor) { return tensor.view().select(0, b).slice(1, 0, length); };
        const Outcome cropped = attend(q.view().select(0, b), crop(k), crop(v), options);
        const auto own = [&](const Tensor& tensor) { return tensor.view().select(0, b); };
        EXPECT_TRUE(testing::same_bits(own(padded.out), cropped.out));
        EXPECT_TRUE(testing::same_bits(own(padded.log_sum_exp), cropped.log_sum_exp));
        EXPECT_TRUE(testing::same_bits(own(padded.weights).slice(2, 0, length), cropped.weights));
        EXPECT_TRUE(testing::same_bits(own(padded.logits).slice(2, 0, length), cropped.logits));
      }
    }
  }
}

TEST_P(AttentionBitwise, ASequenceAmongOthersEqualsItselfAlone) {
  Random random(4);
  for (const std::int64_t q_len : {1, 2, 100}) {
    const Tensor q = testing::normal(random, {3, 6, q_len, 40}), k = testing::normal(random, {3, 2, 1030, 40});
    const Tensor v = testing::normal(random, {3, 2, 1030, 40});
    const Outcome together = attend(q, k, v);
    for (std::int64_t b = 0; b < 3; ++b) {
      const auto own = [b](const Tensor& tensor) { return tensor.view().slice(0, b, b + 1); };
      EXPECT_TRUE(testing::same_bits(own(together.out), attention(own(q), own(k), own(v))));
    }
    // One query head with its key/value head.
    const Tensor head = attention(q.view().slice(1, 4, 5), k.view().slice(1, 1, 2), v.view().slice(1, 1, 2));
    EXPECT_TRUE(testing::same_bits(together.out.view().slice(1, 4, 5), head));
  }
}

TEST_P(AttentionBitwise, ChunksOfQueriesEqualTheWhole) {
  constexpr std::int64_t kLength = 1200;
  const Tensor two_slopes = Tensor::of<float>({2}, {0.5f, 0.01f});
  for (const Dtype dtype : kFloating) {
    Random random(5);
    const Tensor q = testing::normal(random, {2, kLength, 16}, dtype);
    const Tensor k = testing::normal(random, {1, kLength, 16}, dtype);
    const Tensor v = testing::normal(random, {1, kLength, 16}, dtype);
    for (const std::int64_t left : {-1, 100}) {
      const auto options = [&](Align align) {
        return AttentionOptions{.mask = Mask::causal(align) & Mask::window(left, 0), .bias = Bias::alibi(two_slopes)};
      };
      const Tensor whole = attention(q, k, v, options(Align::top_left));
      for (const std::int64_t chunk : {2, 7, 48, 100, 513}) {
        SCOPED_TRACE(chunk);
        Tensor joined = Tensor::zeros(whole.shape(), dtype);
        std::int64_t begin = 0;
        while (begin < kLength) {
          // A last chunk of one query would be decoding, another computation: it joins its neighbour.
          const std::int64_t end = begin + chunk + 1 >= kLength ? kLength : begin + chunk;
          attention(q.view().slice(1, begin, end), k.view().slice(1, 0, end), v.view().slice(1, 0, end),
                    joined.view().slice(1, begin, end), options(Align::bottom_right));
          begin = end;
        }
        EXPECT_TRUE(testing::same_bits(joined, whole));
      }
    }
  }
}

}  // namespace
}  // namespace qkv
