// Keys in pages give the bits of the same keys in one piece, whatever the pages' size and order and whatever lies in
// rows that no sequence owns.
#include <fmt/format.h>

#include <functional>

#include "attention/paged_keys.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::normal;
using testing::Outcome;
using testing::paged::kHeads;
using testing::paged::kKvHeads;
using testing::paged::Pages;

// Everything of one call, by the shape of the rows of weights.
Outcome attend(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options,
               std::int64_t longest) {
  const Dtype wide = q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Dims rows, out, matrix;
  for (int i = 0; i < q.rank() - 1; ++i) rows.push_back(q.size(i));
  out = matrix = rows;
  out.push_back(v.size(-1));
  matrix.push_back(longest);
  Outcome outcome{.out = testing::filled(out, testing::kNan, q.dtype()),
                  .log_sum_exp = testing::filled(rows, testing::kNan, wide),
                  .weights = testing::filled(matrix, testing::kNan, wide),
                  .logits = testing::filled(matrix, testing::kNan, wide)};
  attention(q, k, v, outcome.out, options,
            {.log_sum_exp = outcome.log_sum_exp, .weights = outcome.weights, .logits = outcome.logits});
  return outcome;
}

std::vector<AttentionOptions> options_of_interest() {
  static const Tensor slopes = Tensor::of<float>({kHeads}, {0.1f, 0, 0.5f, 0.02f});
  return {{},
          {.mask = Mask::causal(Align::bottom_right) & Mask::window(100, 0)},
          {.mask = Mask::causal(Align::bottom_right), .bias = Bias::alibi(slopes), .soft_cap = 20}};
}

QKV_ON_EACH_TARGET(AttentionPages);

TEST_P(AttentionPages, EqualContiguousKeys) {
  const std::vector<std::int32_t> counts = {1100, 0, 1, 70};
  const std::pair<Dtype, std::int64_t> cases[] = {{Dtype::f32, 1},  {Dtype::f32, 5},  {Dtype::f32, 256},
                                                  {Dtype::f64, 16}, {Dtype::bf16, 5}, {Dtype::f16, 16}};
  for (const auto& [dtype, rows] : cases) {
    const Pages pages(counts, rows, dtype, 20, 12);
    for (const std::int64_t q_len : {1, 18}) {
      SCOPED_TRACE(fmt::format("{} queries, pages of {}, {}", q_len, rows, name_of(dtype)));
      Random random(2);
      const Tensor q = normal(random, {4, kHeads, q_len, 20}, dtype);
      for (AttentionOptions options : options_of_interest()) {
        options.mask = options.mask & Mask::lengths(pages.lengths);
        const Outcome whole = attend(q, pages.padded_k, pages.padded_v, options, 1100);
        options.block_table = pages.block_table;
        options.threads = 2;
        expect_same(attend(q, pages.k, pages.v, options, 1100), whole);
      }
    }
  }
}

// Several blocks of queries share what was brought together of the pages, all of it or a part at a time.
TEST_P(AttentionPages, ManyQueries) {
  for (const std::int64_t size : {20, 128}) {
    const Pages pages({1100, 49}, 16, Dtype::f32, size, size + 4);
    Random random(8);
    const Tensor q = normal(random, {2, kHeads, 100, size});
    for (AttentionOptions options : options_of_interest()) {
      options.mask = options.mask & Mask::lengths(pages.lengths);
      const Outcome whole = attend(q, pages.padded_k, pages.padded_v, options, 1100);
      const Tensor alone = attention(q, pages.padded_k, pages.padded_v, options);
      options.block_table = pages.block_table;
      options.threads = 2;
      expect_same(attend(q, pages.k, pages.v, options, 1100), whole);
      EXPECT_TRUE(testing::same_bits(attention(q, pages.k, pages.v, options), alone));
    }
  }
}

// Infinite values behind a boolean mask take the guarded path; statistics take a second look.
TEST_P(AttentionPages, HiddenValuesAndStatistics) {
  Pages pages({300, 200}, 16, Dtype::f32, 16, 16);
  Random random(3);
  const Tensor visible = testing::coin_flips(random, {2, 1, 1, 300}, 0.5);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t j = 0; j < 200; ++j) {
      if (visible.view().at<bool>({b, 0, 0, j})) continue;
      const std::int64_t page = pages.block_table.view().at<std::int32_t>({b, j / 16});
      for (std::int64_t head = 0; head < kKvHeads; ++head) {
        pages.v.view().at<float>({page, j % 16, head, 5}) = static_cast<float>(testing::kInfinity);
        pages.padded_v.view().at<float>({b, head, j, 5}) = static_cast<float>(testing::kInfinity);
      }
    }
  }
  for (const std::int64_t q_len : {1, 40}) {
    const Tensor q = normal(random, {2, kHeads, q_len, 16});
    AttentionOptions options{.mask = Mask::lengths(pages.lengths) & Mask::boolean(visible)};
    const auto statistics = [&](const Tensor& k, const Tensor& v) {
      Tensor out = Tensor::zeros({2, kHeads, q_len, 16}), entropy = Tensor::zeros({2, kHeads, q_len});
      Tensor received = Tensor::zeros({2, kHeads, 300});
      attention(q, k, v, out, options, {.entropy = entropy, .received = received});
      return std::vector<Tensor>{out, entropy, received};
    };
    const std::vector<Tensor> whole = statistics(pages.padded_k, pages.padded_v);
    options.block_table = pages.block_table;
    const std::vector<Tensor> paged = statistics(pages.k, pages.v);
    EXPECT_TRUE(std::isfinite(testing::largest(paged[0])));
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(testing::same_bits(paged[i], whole[i])) << i;
  }
}

// Rows of weights, whole blocks of queries and single ones, in any order and twice; of packed queries by their
// sequence.
TEST_P(AttentionPages, ChosenRows) {
  const std::vector<std::int32_t> counts = {1100, 0, 1, 70};
  const std::int64_t q_len = 150;
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 30; i < 100; ++i) chosen.insert(chosen.end(), {0, 1, i});
  for (std::int64_t n = 0; n < 60; ++n) chosen.insert(chosen.end(), {n % 4, n * n % kHeads, n * 61 % q_len});
  const std::int64_t count = static_cast<std::int64_t>(chosen.size()) / 3;
  const Tensor rows = Tensor::of({count, 3}, chosen);
  const Tensor offsets = Tensor::of<std::int32_t>({5}, {0, 150, 300, 450, 600});
  const std::pair<Dtype, std::int64_t> cases[] = {
      {Dtype::f32, 1}, {Dtype::f32, 16}, {Dtype::f32, 300}, {Dtype::f64, 5}, {Dtype::bf16, 16}};
  for (const auto& [dtype, page] : cases) {
    SCOPED_TRACE(fmt::format("pages of {}, {}", page, name_of(dtype)));
    const Pages pages(counts, page, dtype, 20, 12);
    Random random(6);
    const Tensor q = normal(random, {4, kHeads, q_len, 20}, dtype);
    Tensor packed = Tensor::uninitialized({4 * q_len, kHeads, 20}, dtype);
    for (std::int64_t b = 0; b < 4; ++b) {
      convert(q.view().select(0, b).transpose(0, 1), packed.view().slice(0, b * q_len, (b + 1) * q_len));
    }
    for (AttentionOptions options : options_of_interest()) {
      options.mask = options.mask & Mask::lengths(pages.lengths);
      const auto weights_of = [&](const TensorView& queries, const Tensor& k, const Tensor& v) {
        Tensor weights = testing::filled({count, 1100}, testing::kNan, dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32);
        attention(queries, k, v, options, {.rows = rows, .row_weights = weights});
        return weights;
      };
      const Tensor whole = weights_of(q, pages.padded_k, pages.padded_v);
      const Tensor exact = reference::attention(q, pages.padded_k, pages.padded_v, options).weights;
      for (std::int64_t n = 0; n < count; ++n) {
        const std::int64_t* at = chosen.data() + 3 * n;
        const TensorView wanted = exact.view().select(0, at[0]).select(0, at[1]).select(0, at[2]);
        EXPECT_LE(testing::difference(whole.view().select(0, n), wanted), dtype == Dtype::f64 ? 1e-14 : 2e-6);
      }
      options.block_table = pages.block_table;
      options.threads = 2;
      EXPECT_TRUE(testing::same_bits(weights_of(q, pages.k, pages.v), whole));
      options.offsets_query = offsets;
      EXPECT_TRUE(testing::same_bits(weights_of(packed, pages.k, pages.v), whole));
    }
  }
}

// Weights of NaN are those of a sequence's own keys; beyond them lies another sequence, or nothing: 0.
TEST_P(AttentionPages, RowsOfNan) {
  const std::vector<std::int32_t> counts = {70, 3};
  const Pages pages(counts, 16, Dtype::f32, 8, 8);
  for (const std::int64_t q_len : {1, 2, 60}) {
    const Tensor q = testing::filled({2, kHeads, q_len, 8}, testing::kNan, Dtype::f32);
    const Tensor rows = Tensor::of<std::int64_t>({2, 3}, {0, 1, q_len - 1, 1, 2, q_len - 1});
    Tensor out = Tensor::zeros(q.shape()), weights = Tensor::zeros({2, kHeads, q_len, 70}),
           chosen = Tensor::zeros({2, 70});
    const AttentionOptions options{.mask = Mask::lengths(pages.lengths), .block_table = pages.block_table};
    attention(q, pages.k, pages.v, out, options, {.weights = weights});
    attention(q, pages.k, pages.v, out, options, {.rows = rows, .row_weights = chosen});
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t key = 0; key < 70; ++key) {
        const bool is_own = key < counts[static_cast<std::size_t>(b)];
        for (const float weight :
             {weights.view().at<float>({b, 1, q_len - 1, key}), chosen.view().at<float>({b, key})}) {
          EXPECT_TRUE(is_own ? std::isnan(weight) : weight == 0) << q_len << ", " << b << ", " << key << ": " << weight;
        }
      }
    }
  }
}

TEST_P(AttentionPages, PackedQueries) {
  const Pages pages({130, 40, 5}, 16, Dtype::f32, 16, 16);
  Random random(4);
  const Tensor q = normal(random, {70 + 1 + 5, kHeads, 16});
  const Tensor q_offsets = Tensor::of<std::int32_t>({4}, {0, 70, 71, 76});
  AttentionOptions options{.mask = Mask::causal(Align::bottom_right) & Mask::lengths(pages.lengths),
                           .offsets_query = q_offsets,
                           .block_table = pages.block_table};
  const Outcome packed = attend(q, pages.k, pages.v, options, 130);
  const std::int64_t counts[] = {130, 40, 5}, offsets[] = {0, 70, 71, 76};
  for (std::int64_t b = 0; b < 3; ++b) {
    const auto own = [&](const Tensor& keys) { return keys.view().select(0, b).slice(1, 0, counts[b]); };
    const TensorView queries = q.view().slice(0, offsets[b], offsets[b + 1]).transpose(0, 1);
    const Tensor alone =
        attention(queries, own(pages.padded_k), own(pages.padded_v), {.mask = Mask::causal(Align::bottom_right)});
    EXPECT_TRUE(testing::same_bits(packed.out.view().slice(0, offsets[b], offsets[b + 1]).transpose(0, 1), alone));
  }
}

TEST_P(AttentionPages, Reference) {
  const Pages pages({37, 12}, 5, Dtype::f64, 8, 6);
  Random random(5);
  const Tensor padded = normal(random, {2, kHeads, 3, 8}, Dtype::f64);
  const Tensor packed = normal(random, {5, kHeads, 8}, Dtype::f64);
  const Tensor q_offsets = Tensor::of<std::int32_t>({3}, {0, 4, 5});
  AttentionOptions options{.mask = Mask::causal(Align::bottom_right) & Mask::lengths(pages.lengths),
                           .block_table = pages.block_table};
  EXPECT_LE(testing::difference(attention(padded, pages.k, pages.v, options),
                                reference::attention(padded, pages.k, pages.v, options).out),
            1e-14);
  options.offsets_query = q_offsets;
  EXPECT_LE(testing::difference(attention(packed, pages.k, pages.v, options),
                                reference::attention(packed, pages.k, pages.v, options).out),
            1e-14);
}

// Without lengths all blocks are full.
TEST_P(AttentionPages, NoLengths) {
  const Tensor pages = Tensor::of<float>({2, 2, 1, 1}, {1, 2, 3, 4}), q = Tensor::zeros({1, 1, 1, 1});
  const Tensor table = Tensor::of<std::int32_t>({1, 2}, {1, 1});
  EXPECT_EQ(attention(q, pages, pages, {.block_table = table}).data<float>()[0], 3.5f);
}

TEST(AttentionPagesArguments, Refused) {
  const Tensor q = testing::filled({2, 2, 1, 4}, 1), pages = testing::filled({3, 8, 1, 4}, 1);
  const auto refuse = [&](const std::string& message, const Tensor& k, const Tensor& v, const Tensor& table,
                          std::vector<std::int32_t> counts = {8, 8}) {
    const Tensor lengths = Tensor::of({static_cast<std::int64_t>(counts.size())}, counts);
    try {
      attention(q, k, v, {.mask = Mask::lengths(lengths), .block_table = table});
      ADD_FAILURE() << "not refused: " << message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  const Tensor table = Tensor::of<std::int32_t>({2, 2}, {0, 1, 2, 3});
  refuse("block_table[1, 1] is 3; it must be 0 to 2", pages, pages, table, {8, 9});
  refuse("block_table[0, 0] is -1; it must be 0 to 2", pages, pages, Tensor::of<std::int32_t>({2, 1}, {-1, 0}));
  refuse("lengths[1] is 17; it must be 0 to 16", pages, pages, table, {8, 17});
  refuse("block_table has 1 rows for a batch of 2", pages, pages, Tensor::of<std::int32_t>({1, 2}, {0, 1}));
  refuse("block_table must be i32 [batch, blocks], got i64 [2, 1]", pages, pages,
         Tensor::of<std::int64_t>({2, 1}, {0, 1}));
  refuse("block_table must be i32 [batch, blocks], got i32 [2]", pages, pages, Tensor::of<std::int32_t>({2}, {0, 1}));
  refuse("paged key and value must be [pages, rows, kv_heads, size], got [8, 1, 4]", testing::filled({8, 1, 4}, 1),
         pages, table);
  refuse("paged key [3, 8, 1, 4] and value [4, 8, 1, 4] differ before the size", pages,
         testing::filled({4, 8, 1, 4}, 1), table);
  refuse("pages must have 1 to", testing::filled({3, 0, 1, 4}, 1), testing::filled({3, 0, 1, 4}, 1), table);
  refuse("key has head_dim 5, query has 4", testing::filled({3, 8, 1, 5}, 1), pages, table);
  EXPECT_THROW(
      attention(q, pages, pages, {.offsets_key = Tensor::of<std::int32_t>({3}, {0, 8, 16}), .block_table = table}),
      std::invalid_argument);
}

}  // namespace
}  // namespace qkv
