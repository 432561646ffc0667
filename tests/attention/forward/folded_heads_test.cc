// Heads that share keys and a block of queries: each has the bits that it has alone, in any form, type and mask.
#include "attention/attention_testing.h"
#include "qkv/attention/attention_plan.h"

namespace qkv {
namespace {

using testing::attend_plainly;
using testing::PlainOutcome;
using testing::same_bits;

bool folds(const TensorView& q, const TensorView& k, const AttentionOptions& options) {
  const AttentionPlan plan = qkv::plan(q, k, k, options);
  return std::any_of(plan.remarks.begin(), plan.remarks.end(),
                     [](const std::string& line) { return line.find("heads share a block") != std::string::npos; });
}

// Row h of heads [heads, ...], as a group of its own.
TensorView head_of(const TensorView& heads, std::int64_t h) { return heads.slice(0, h, h + 1); }

void expect_heads_alone(const PlainOutcome& together, const TensorView& q, const TensorView& k, const TensorView& v,
                        const AttentionOptions& options) {
  const std::int64_t group = q.size(0) / k.size(0);
  for (std::int64_t h = 0; h < q.size(0); ++h) {
    const PlainOutcome alone = attend_plainly(head_of(q, h), head_of(k, h / group), head_of(v, h / group), options);
    EXPECT_TRUE(same_bits(head_of(together.out, h), alone.out)) << "head " << h;
    EXPECT_TRUE(same_bits(head_of(together.log_sum_exp, h), alone.log_sum_exp)) << "head " << h;
  }
}

QKV_ON_EACH_TARGET(FoldedHeads);

TEST_P(FoldedHeads, EachHasTheBitsOfItselfAlone) {
  const std::vector<AttentionOptions> all = {
      {},
      {.mask = Mask::causal(Align::bottom_right)},
      {.mask = Mask::causal(Align::top_left), .scale = -0.5},
      {.mask = Mask::window(30, 2, Align::bottom_right), .soft_cap = 2},
      {.mask = Mask::window(1, -1, Align::top_left), .precision = Precision::reduced}};
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    for (const auto& [q_len, group] : {std::pair(2, 4), {3, 2}, {5, 16}, {7, 3}, {16, 5}, {24, 2}}) {
      Random random(1);
      const Tensor q = testing::normal(random, {2 * group, q_len, 20}, dtype);
      const Tensor k = testing::normal(random, {2, 1100, 20}, dtype), v = testing::normal(random, {2, 1100, 9}, dtype);
      for (const AttentionOptions& options : all) {
        SCOPED_TRACE(::testing::Message() << name_of(dtype) << ", " << q_len << " queries, " << group << " heads");
        expect_heads_alone(attend_plainly(q, k, v, options), q, k, v, options);
      }
    }
  }
}

// A mask of all heads, as that of a tree of guesses: bytes, blocks of them, documents; NaN behind it.
TEST_P(FoldedHeads, MasksOfAllHeads) {
  for (const auto& [q_len, group] : {std::pair(2, 8), {5, 4}, {20, 2}}) {
    Random random(4);
    const Tensor q = testing::normal(random, {2 * group, q_len, 24}), k = testing::normal(random, {2, 1300, 24});
    Tensor v = testing::normal(random, {2, 1300, 16});
    Tensor tree = testing::coin_flips(random, {q_len, 1300}, 0.5),
           squares = testing::coin_flips(random, {q_len, 1300}, 0.2);
    testing::repeat_in_squares(squares, 64);
    std::vector<std::int32_t> query_ids, key_ids, scattered;
    for (int i = 0; i < q_len; ++i) query_ids.push_back(i % 3);
    for (int j = 0; j < 1300; ++j) {
      key_ids.push_back(j / 500);
      scattered.push_back(static_cast<std::int32_t>(random.below(4)));
      for (int i = 0; i < q_len; ++i) tree.view().at<bool>({i, 700}) = squares.view().at<bool>({i, 700}) = false;
    }
    testing::put(v, {0, 700, 3}, testing::kNan);
    const Tensor of_queries = Tensor::of({q_len}, query_ids), of_keys = Tensor::of({1300}, key_ids);
    const Tensor mixed = Tensor::of({1300}, scattered);
    for (const Mask& mask : {Mask::boolean(tree), Mask::boolean(squares), Mask::boolean(squares).compiled(1),
                             Mask::boolean(squares) & Mask::documents(of_queries, of_keys) & Mask::window(900, 0),
                             Mask::boolean(tree) & Mask::documents(of_queries, mixed)}) {
      SCOPED_TRACE(q_len);
      const AttentionOptions options{.mask = mask, .threads = 1};
      const AttentionPlan plan = qkv::plan(q, k, v, options);
      EXPECT_EQ(folds(q, k, options), 2 * q_len <= plan.block_queries);
      const PlainOutcome together = attend_plainly(q, k, v, options);
      expect_heads_alone(together, q, k, v, options);
      for (const double number : testing::values(together.out)) ASSERT_FALSE(std::isnan(number));
    }
  }
}

TEST_P(FoldedHeads, AnyThreadsStridesAndOutputs) {
  Random random(2);
  // [batch, queries, heads, size] seen as [batch, heads, queries, size].
  const Tensor rows = testing::normal(random, {3, 4, 8, 16}, Dtype::bf16);
  const Tensor k = testing::normal(random, {3, 2, 300, 16}, Dtype::bf16);
  const TensorView q = rows.view().transpose(1, 2);
  const Tensor lengths = Tensor::of<std::int32_t>({3}, {300, 0, 2});
  const AttentionOptions one{.mask = Mask::causal(Align::bottom_right) & Mask::lengths(lengths), .threads = 1};
  EXPECT_EQ(folds(q, k, one), GetParam() != "portable");  // whose blocks hold three queries
  const PlainOutcome numbers = attend_plainly(q, k, k, one);
  for (const int threads : {2, 3, 4, 7, 16}) {
    AttentionOptions options = one;
    options.threads = threads;
    const PlainOutcome more = attend_plainly(q, k, k, options);
    EXPECT_TRUE(same_bits(numbers, more)) << threads;
  }
  // Out in the order of q, and in f32; the log-sum-exp not asked for.
  Tensor out = Tensor::zeros(rows.shape()), contiguous = Tensor::zeros(q.shape());
  attention(q, k, k, out.view().transpose(1, 2), one);
  attention(q, k, k, contiguous, one);
  EXPECT_TRUE(same_bits(out.view().transpose(1, 2), contiguous));
  // Tiles cut weights into fewer pieces for 16 bits.
  EXPECT_TRUE(GetParam() == "amx" || same_bits(convert(contiguous, Dtype::bf16), numbers.out));
}

TEST_P(FoldedHeads, PackedAmongLongerAndSingleQueries) {
  Random random(3);
  const std::vector<std::int32_t> q_rows = {0, 3, 4, 124, 124, 126}, k_rows = {0, 50, 90, 290, 300, 301};
  const Tensor offsets_query = Tensor::of({6}, q_rows), offsets_key = Tensor::of({6}, k_rows);
  const Tensor q = testing::normal(random, {126, 6, 16}), k = testing::normal(random, {301, 2, 16});
  AttentionOptions packed{.mask = Mask::causal(Align::bottom_right)};
  const AttentionOptions alone = packed;
  packed.offsets_query = offsets_query, packed.offsets_key = offsets_key;
  const PlainOutcome numbers = attend_plainly(q, k, k, packed);
  for (std::size_t b = 0; b < 5; ++b) {
    const auto queries = [&](const Tensor& of) { return of.view().slice(0, q_rows[b], q_rows[b + 1]).transpose(0, 1); };
    const TensorView keys = k.view().slice(0, k_rows[b], k_rows[b + 1]).transpose(0, 1);
    const PlainOutcome own{Tensor::copy(queries(numbers.out)), Tensor::copy(queries(numbers.log_sum_exp))};
    // Of a single query, decoded, heads are computed together in any case.
    if (q_rows[b + 1] - q_rows[b] > 1) expect_heads_alone(own, queries(q), keys, keys, alone);
  }
}

// What differs from head to head, or tells of weights, keeps heads apart; so does work for more threads.
TEST_P(FoldedHeads, OnlyWhereQueriesAloneDiffer) {
  const TensorView q(nullptr, Dtype::f32, {1, 8, 2, 32}), k(nullptr, Dtype::f32, {1, 2, 500, 32});
  const Tensor slopes = testing::filled({8}, 0.5), sinks = testing::filled({8}, 1);
  if (GetParam() == "portable") GTEST_SKIP() << "a block holds three queries";
  const Tensor visible = testing::filled({2, 500}, 1, Dtype::boolean),
               by_head = testing::filled({8, 2, 500}, 1, Dtype::boolean), bias = Tensor::zeros({2, 500});
  EXPECT_TRUE(folds(q, k, {.threads = 2}));
  EXPECT_FALSE(folds(q, k, {.threads = 8}));
  EXPECT_FALSE(folds(q, k, {.bias = Bias::alibi(slopes), .threads = 1}));
  EXPECT_FALSE(folds(q, k, {.bias = Bias::view(bias), .threads = 1}));
  EXPECT_TRUE(folds(q, k, {.mask = Mask::boolean(visible), .threads = 1}));
  EXPECT_FALSE(folds(q, k, {.mask = Mask::boolean(by_head), .threads = 1}));
  AttentionOptions sunk{.threads = 1};
  sunk.sinks = sinks;
  EXPECT_FALSE(folds(q, k, sunk));
  EXPECT_FALSE(folds({nullptr, Dtype::f32, {1, 8, 25, 32}}, k, {.threads = 1}));
  EXPECT_FALSE(folds({nullptr, Dtype::f32, {1, 2, 4, 32}}, k, {.threads = 1}));
  const AttentionPlan plan = qkv::plan(q, k, k, {.threads = 1});
  EXPECT_EQ(plan.tiles, 2 * ((500 + plan.tile_keys - 1) / plan.tile_keys));
}

TEST_P(FoldedHeads, WithinAMegabyte) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    for (const std::int64_t size : {16, 128, 600, 1024}) {
      for (const std::int64_t q_len : {4, 4096}) {
        const TensorView q(nullptr, dtype, {1, 8, q_len, size}), k(nullptr, dtype, {1, 2, 1 << 20, size});
        EXPECT_LE(qkv::plan(q, k, k, {.threads = 1}).workspace, 1 << 20) << name_of(dtype) << " " << size;
      }
    }
  }
}

}  // namespace
}  // namespace qkv
