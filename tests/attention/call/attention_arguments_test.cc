// Every rule of attention.h, broken once: std::invalid_argument with the sizes in it, before any output is touched.
#include "attention/attention_testing.h"

namespace qkv {
namespace {

using testing::expect_refused;
using testing::filled;

// A correct call, which each case spoils in one place.
struct Call {
  Tensor q = filled({2, 4, 5, 8}, 1), k = filled({2, 2, 6, 8}, 1), v = filled({2, 2, 6, 3}, 1);
  Tensor out = filled({2, 4, 5, 3}, 7);
  AttentionOptions options;
  AttentionExtras extras;
  std::vector<Tensor> kept;  // what options and extras borrow

  Call() { kept.reserve(8); }
  MutableTensorView keep(Tensor tensor) { return kept.emplace_back(std::move(tensor)); }
  MutableTensorView ones(const Dims& shape, Dtype dtype = Dtype::f32) { return keep(filled(shape, 1, dtype)); }
  TensorView i32(const std::vector<std::int32_t>& numbers) {
    return keep(Tensor::of({static_cast<std::int64_t>(numbers.size())}, numbers));
  }
  TensorView i64(const std::vector<std::int64_t>& numbers) {
    return keep(Tensor::of({static_cast<std::int64_t>(numbers.size())}, numbers));
  }
  void page(const Dims& shape, const std::vector<std::int32_t>& table, const std::vector<std::int32_t>& lengths) {
    k = filled({3, 8, 2, 8}, 1), v = filled({3, 8, 2, 3}, 1);
    options.block_table = keep(Tensor::of(shape, table));
    options.mask = Mask::lengths(i32(lengths));
  }
  void mask(const Mask& mask) { options.mask = mask; }
  void bias(const Bias& bias) { options.bias = bias; }
  void score(const Score& score) { options.score = score; }
  void pack() {
    q = filled({5, 4, 8}, 1), k = filled({6, 2, 8}, 1), v = filled({6, 2, 3}, 1), out = filled({5, 4, 3}, 7);
    options.offsets_query = keep(Tensor::of<std::int32_t>({3}, {0, 2, 5}));
    options.offsets_key = keep(Tensor::of<std::int64_t>({3}, {0, 6, 6}));
  }
};

struct Rule {
  const char* fragment;
  std::function<void(Call&)> break_it;
};

const Rule kRules[] = {
    // Inputs and output.
    {"query has type i32; it must be f32, f64, bf16 or f16", [](Call& c) { c.q = convert(c.q, Dtype::i32); }},
    {"query, key and value must have one type, got f32, f64 and f32", [](Call& c) { c.k = convert(c.k, Dtype::f64); }},
    {"query, key and value must have one type, got f32, f32 and bf16",
     [](Call& c) { c.v = convert(c.v, Dtype::bf16); }},
    {"out has type f64; it must be f32 like query", [](Call& c) { c.out = convert(c.out, Dtype::f64); }},
    {"must have equal rank, at least 2", [](Call& c) { c.k = filled({2, 6, 8}, 1); }},
    {"must have equal rank, at least 2", [](Call& c) { c.q = c.k = c.v = c.out = filled({8}, 1); }},
    {"key has head_dim 9, query has 8 (query [2, 4, 5, 8], key [2, 2, 6, 9])",
     [](Call& c) { c.k = filled({2, 2, 6, 9}, 1); }},
    {"key must be [2, 2, 6, 8], got [3, 2, 6, 8]", [](Call& c) { c.k = filled({3, 2, 6, 8}, 1); }},
    {"value must be [2, 2, 6, 3], got [2, 2, 7, 3]", [](Call& c) { c.v = filled({2, 2, 7, 3}, 1); }},
    {"value must be [2, 2, 6, 3], got [2, 4, 6, 3]", [](Call& c) { c.v = filled({2, 4, 6, 3}, 1); }},
    {"out must be [2, 4, 5, 3], got [2, 4, 5, 8]", [](Call& c) { c.out = filled({2, 4, 5, 8}, 7); }},
    {"4 query heads are not a multiple of 3 key/value heads",
     [](Call& c) { c.k = filled({2, 3, 6, 8}, 1), c.v = filled({2, 3, 6, 3}, 1); }},
    {"4 query heads are not a multiple of 0 key/value heads",
     [](Call& c) { c.k = filled({2, 0, 6, 8}, 1), c.v = filled({2, 0, 6, 3}, 1); }},
    {"head and value sizes must be 1 to 1024, got 0",
     [](Call& c) { c.q = filled({2, 4, 5, 0}, 1), c.k = filled({2, 2, 6, 0}, 1); }},
    {"head and value sizes must be 1 to 1024, got 1025",
     [](Call& c) { c.v = filled({2, 2, 6, 1025}, 1), c.out = filled({2, 4, 5, 1025}, 7); }},
    // Numbers.
    {"scale must be finite, got nan", [](Call& c) { c.options.scale = testing::kNan; }},
    {"scale must be finite, got inf", [](Call& c) { c.options.scale = testing::kInfinity; }},
    {"soft_cap must be finite, 0 (off) or more, got -1", [](Call& c) { c.options.soft_cap = -1; }},
    {"soft_cap must be finite, 0 (off) or more, got nan", [](Call& c) { c.options.soft_cap = testing::kNan; }},
    {"soft_cap must be finite, 0 (off) or more, got inf", [](Call& c) { c.options.soft_cap = testing::kInfinity; }},
    // Masks.
    {"prefix has 3 entries for a batch of 2", [](Call& c) { c.mask(Mask::prefix(c.i32({1, 2, 3}))); }},
    {"prefix[1] is -4; it must be 0 or more", [](Call& c) { c.mask(Mask::prefix(c.i64({900, -4}))); }},
    {"prefix must be i32 or i64, got f32", [](Call& c) { c.mask(Mask::prefix(c.ones({2}))); }},
    {"lengths has 3 entries for a batch of 2", [](Call& c) { c.mask(Mask::lengths(c.i32({1, 2, 3}))); }},
    {"lengths[1] is 7; it must be 0 to 6", [](Call& c) { c.mask(Mask::lengths(c.i32({6, 7}))); }},
    {"lengths[0] is -1; it must be 0 to 6", [](Call& c) { c.mask(Mask::lengths(c.i64({-1, 0}))); }},
    {"lengths must be i32 or i64, got f32", [](Call& c) { c.mask(Mask::lengths(c.ones({2}))); }},
    {"lengths must have one dimension, got [2, 1]", [](Call& c) { c.mask(Mask::lengths(c.ones({2, 1}, Dtype::i32))); }},
    {"a boolean mask must be bool or u8 (true = may attend), got f32",
     [](Call& c) { c.mask(Mask::boolean(c.ones({5, 6}))); }},
    {"boolean mask [4, 6] does not broadcast to [2, 4, 5, 6]",
     [](Call& c) { c.mask(Mask::boolean(c.ones({4, 6}, Dtype::boolean))); }},
    {"query documents [4] does not broadcast to [2, 5]",
     [](Call& c) { c.mask(Mask::documents(c.ones({4}, Dtype::i32), c.ones({6}, Dtype::i32))); }},
    {"key documents [5] does not broadcast to [2, 6]",
     [](Call& c) { c.mask(Mask::documents(c.ones({5}, Dtype::i32))); }},
    {"query documents must be i32 or i64, got f32", [](Call& c) { c.mask(Mask::documents(c.ones({6}))); }},
    {"key documents [2, 6] does not broadcast to [6]",
     [](Call& c) {
       c.pack();
       c.options.mask = Mask::documents(c.ones({5}, Dtype::i32), c.ones({2, 6}, Dtype::i32));
     }},
    // Sinks.
    {"sinks must be [4], got [2]", [](Call& c) { c.options.sinks = c.ones({2}); }},
    {"sinks must be f32 or f64, got bf16", [](Call& c) { c.options.sinks = c.ones({4}, Dtype::bf16); }},
    {"sinks[0] is nan; it must be a number or -infinity (none)",
     [](Call& c) { c.options.sinks = c.keep(filled({4}, testing::kNan)); }},
    {"sinks[0] is inf; it must be a number or -infinity (none)",
     [](Call& c) { c.options.sinks = c.keep(filled({4}, testing::kInfinity)); }},
    // Biases.
    {"bias [2, 1, 1, 1, 6] does not broadcast to [2, 4, 5, 6]",
     [](Call& c) { c.bias(Bias::view(c.ones({2, 1, 1, 1, 6}))); }},
    {"bias is bf16; for f32 inputs it must be f32", [](Call& c) { c.bias(Bias::view(c.ones({5, 6}, Dtype::bf16))); }},
    {"ALiBi slopes [3] does not broadcast to [2, 4]", [](Call& c) { c.bias(Bias::alibi(c.ones({3}))); }},
    {"ALiBi slopes must be f32 or f64, got f16", [](Call& c) { c.bias(Bias::alibi(c.ones({4}, Dtype::f16))); }},
    {"a relative table [5, 3] must have a column for each of the 4 heads",
     [](Call& c) { c.bias(Bias::clipped(c.ones({5, 3}))); }},
    {"queries at positions 0 to 4 and 6 keys do not fit a window of 2 x 2",
     [](Call& c) { c.bias(Bias::swin(c.ones({9, 4}), 2, 2)); }},
    {"at most 4 tables can be combined, got 5",
     [](Call& c) {
       const Bias one = Bias::clipped(c.ones({5, 4}));
       c.bias(one + one + one + one + one);
     }},
    // Scores.
    {"score w must be [8, 8], got [8, 9]", [](Call& c) { c.score(Score::bilinear(c.ones({8, 9}))); }},
    {"score w_query must be [5, 8], got [5, 7]",
     [](Call& c) { c.score(Score::additive(c.ones({5, 7}), c.ones({5, 8}), c.ones({5}))); }},
    {"score w_key must be [5, 8], got [5, 7]",
     [](Call& c) { c.score(Score::additive(c.ones({5, 8}), c.ones({5, 7}), c.ones({5}))); }},
    {"score w must be [5, 16], got [5, 8]", [](Call& c) { c.score(Score::concat(c.ones({5, 8}), c.ones({5}))); }},
    {"score w is f64; for f32 inputs it must be f32",
     [](Call& c) { c.score(Score::bilinear(c.ones({8, 8}, Dtype::f64))); }},
    // Packed rows.
    {"packed rows need offsets for queries and for keys", [](Call& c) { c.options.offsets_query = c.i32({0, 5}); }},
    {"packed query must be [tokens, heads, size], got [2, 4, 5, 8]",
     [](Call& c) {
       c.options.offsets_query = c.i32({0, 5});
       c.options.offsets_key = c.i32({0, 6});
     }},
    {"offsets_query must start at 0, never decrease, and end at the number of rows, 5",
     [](Call& c) { c.pack(), c.options.offsets_query = c.i32({1, 2, 5}); }},
    {"offsets_query must start at 0, never decrease, and end at the number of rows, 5",
     [](Call& c) { c.pack(), c.options.offsets_query = c.i32({0, 2, 4}); }},
    {"offsets_key must start at 0, never decrease, and end at the number of rows, 6",
     [](Call& c) { c.pack(), c.options.offsets_key = c.i32({0, 7, 3, 6}); }},
    {"offsets_key must start at 0, never decrease, and end at the number of rows, 6",
     [](Call& c) { c.pack(), c.options.offsets_key = c.ones({0}, Dtype::i32); }},
    {"offsets_query has 3 entries, offsets_key 2; both must be batch + 1",
     [](Call& c) { c.pack(), c.options.offsets_key = c.i32({0, 6}); }},
    {"offsets_key must be i32 or i64, got f32",
     [](Call& c) { c.pack(), c.options.offsets_key = c.keep(Tensor::of<float>({3}, {0, 3, 6})); }},
    // Pages.
    {"block_table[1, 1] is 3; it must be 0 to 2", [](Call& c) { c.page({2, 2}, {0, 1, 2, 3}, {8, 9}); }},
    {"block_table[0, 0] is -1; it must be 0 to 2", [](Call& c) { c.page({2, 1}, {-1, 0}, {8, 8}); }},
    {"lengths[1] is 17; it must be 0 to 16", [](Call& c) { c.page({2, 2}, {0, 1, 2, 3}, {8, 17}); }},
    {"block_table has 1 rows for a batch of 2", [](Call& c) { c.page({1, 2}, {0, 1}, {8, 8}); }},
    {"block_table must be i32 [batch, blocks], got i32 [2]", [](Call& c) { c.page({2}, {0, 1}, {8, 8}); }},
    {"block_table must be i32 [batch, blocks], got i64 [2, 1]",
     [](Call& c) { c.page({2, 1}, {0, 1}, {8, 8}), c.options.block_table = c.ones({2, 1}, Dtype::i64); }},
    {"paged key and value must be [pages, rows, kv_heads, size], got [8, 2, 8]",
     [](Call& c) { c.page({2, 1}, {0, 1}, {8, 8}), c.k = filled({8, 2, 8}, 1); }},
    {"paged key [3, 8, 2, 8] and value [4, 8, 2, 3] differ before the size",
     [](Call& c) { c.page({2, 1}, {0, 1}, {8, 8}), c.v = filled({4, 8, 2, 3}, 1); }},
    {"pages must have 1 to",
     [](Call& c) { c.page({2, 1}, {0, 1}, {8, 8}), c.k = filled({3, 0, 2, 8}, 1), c.v = filled({3, 0, 2, 3}, 1); }},
    {"key has head_dim 5, query has 8", [](Call& c) { c.page({2, 1}, {0, 1}, {8, 8}), c.k = filled({3, 8, 2, 5}, 1); }},
    {"offsets", [](Call& c) { c.page({2, 1}, {0, 1}, {8, 8}), c.options.offsets_key = c.i32({0, 8, 16}); }},
    // Extras.
    {"log_sum_exp must be [2, 4, 5], got [2, 4, 6]", [](Call& c) { c.extras.log_sum_exp = c.ones({2, 4, 6}); }},
    {"weights must be [2, 4, 5, 6], got [2, 4, 6, 5]", [](Call& c) { c.extras.weights = c.ones({2, 4, 6, 5}); }},
    {"logits is f64; it must be f32", [](Call& c) { c.extras.logits = c.ones({2, 4, 5, 6}, Dtype::f64); }},
    {"rows and row_weights must be given together", [](Call& c) { c.extras.row_weights = c.ones({1, 6}); }},
    {"rows must be i64 [n, 3], got i32 [1, 3]",
     [](Call& c) {
       c.extras.rows = c.ones({1, 3}, Dtype::i32);
       c.extras.row_weights = c.ones({1, 6});
     }},
    {"rows[1] = (0, 4, 0) is outside (batch, head, query)",
     [](Call& c) {
       c.extras.rows = c.keep(Tensor::of<std::int64_t>({2, 3}, {1, 3, 4, 0, 4, 0}));
       c.extras.row_weights = c.ones({2, 6});
     }},
    {"top_keys and top_weights must be given together",
     [](Call& c) { c.extras.top_keys = c.ones({2, 4, 5, 2}, Dtype::i64); }},
    {"top_keys is i32; it must be i64",
     [](Call& c) {
       c.extras.top_keys = c.ones({2, 4, 5, 2}, Dtype::i32);
       c.extras.top_weights = c.ones({2, 4, 5, 2});
     }},
    {"entropy must be [2, 4, 5], got [1, 2, 4]", [](Call& c) { c.extras.entropy = c.ones({2, 4}); }},
    {"entropy is bf16; it must be f32", [](Call& c) { c.extras.entropy = c.ones({2, 4, 5}, Dtype::bf16); }},
    {"received must be [2, 4, 6], got [2, 4, 5]", [](Call& c) { c.extras.received = c.ones({2, 4, 5}); }},
    {"row_weights must be [1, 6], got [2, 6]",
     [](Call& c) {
       c.extras.rows = c.ones({1, 3}, Dtype::i64);
       c.extras.row_weights = c.ones({2, 6});
     }},
};

TEST(AttentionArguments, EachRuleIsNamed) {
  for (const Rule& rule : kRules) {
    Call call;
    rule.break_it(call);
    const Tensor before = call.out;
    const auto attend = [&] { attention(call.q, call.k, call.v, call.out, call.options, call.extras); };
    EXPECT_TRUE(testing::refusal(attend).starts_with("attention: "));
    expect_refused(rule.fragment, attend);
    EXPECT_TRUE(testing::same_bits(call.out, before)) << rule.fragment;
  }
}

TEST(AttentionArguments, TheUnspoiledCallsPass) {
  Call padded, packed;
  packed.pack();
  EXPECT_NO_THROW(attention(padded.q, padded.k, padded.v, padded.out, padded.options, padded.extras));
  EXPECT_NO_THROW(attention(packed.q, packed.k, packed.v, packed.out, packed.options, packed.extras));
}

TEST(AttentionArguments, Strides) {
  const Call call;
  const Tensor wide = filled({2, 4, 5, 16}, 1);
  const TensorView even(wide.view().bytes(), Dtype::f32, {2, 4, 5, 8}, {320, 80, 16, 2});
  expect_refused("query has stride 2 in its last dimension", [&] { attention(even, call.k, call.v); });
  Tensor one = filled({1, 4, 5, 3}, 7);
  const MutableTensorView repeated(one.view().bytes(), Dtype::f32, {2, 4, 5, 3}, {0, 15, 3, 1});
  expect_refused("out repeats elements (stride 0)", [&] { attention(call.q, call.k, call.v, repeated); });
}

TEST(AttentionArguments, RelativeRows) {
  const Call c;
  const Tensor table = filled({7, 8}, 0), narrow = filled({7, 6}, 0), even = filled({6, 8}, 0), w = filled({8, 8}, 0),
               wide = filled({2 * 513 + 1, 8}, 0);
  const auto attend = [&](const Bias& bias, const Score& score = Score::scaled_dot()) {
    return [&, bias, score] { attention(c.q, c.k, c.v, {.bias = bias, .score = score}); };
  };
  EXPECT_NO_THROW(attend(Bias::shaw(table))());
  expect_refused("at most one table of Shaw's", attend(Bias::shaw(table) + Bias::shaw(table)));
  expect_refused("[7, 6] must have rows of head_dim 8", attend(Bias::shaw(narrow)));
  expect_refused("score dot or scaled dot", attend(Bias::shaw(table), Score::bilinear(w)));
  for (const Tensor* rows : {&even, &wide}) {
    expect_refused("2 n + 1 rows, n at most 512", [&] { RelativeTable::shaw(*rows); });
  }
}

TEST(AttentionArguments, Merge) {
  Tensor out = filled({4, 3}, 1), lse = filled({4}, 1), other = filled({4, 2}, 1),
         half = filled({4, 3}, 1, Dtype::bf16);
  expect_refused("[4, 3] and [4, 2]", [&] { merge_attention(out, lse, other, lse); });
  expect_refused("log_sum_exp [4, 2]", [&] { merge_attention(out, other, out, lse); });
  expect_refused("f32, or all f64", [&] { merge_attention(half, lse, half, lse); });
}

TEST(AttentionArguments, ABackwardPassNeedsTheLogSumExp) {
  const Tensor x = filled({1, 2, 4}, 1, Dtype::f64);
  Tensor gradient = filled({1, 2, 4}, 0, Dtype::f64);
  expect_refused("log_sum_exp is not given", [&] { attention_backward(x, x, x, x, {}, x, {}, {.query = gradient}); });
}

}  // namespace
}  // namespace qkv
