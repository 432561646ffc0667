// Rules of a call by hand: when it compiles its boolean mask, what masks and functions see, how a dry run counts.
#include "attention/call/attention_rules.h"

#include "attention/attention_testing.h"
#include "attention/call/attention_call.h"
#include "attention/call/memory_count.h"
#include "core/stop.h"
#include "qkv/attention/attention_plan.h"

namespace qkv {
namespace {

// Compiling asks for a stop once for each group of queries.
bool compiles_mask(const TensorView& q, const TensorView& k, const AttentionOptions& options) {
  const std::int64_t before = stop_checks();
  const AttentionCall call(q, k, k, options);
  return stop_checks() > before;
}

TEST(AttentionRules, MasksAreCompiledForSeveralQueriesOfASequence) {
  const Tensor visible = testing::filled({40, 40}, 1, Dtype::u8), row = testing::filled({1, 40}, 1, Dtype::u8);
  const AttentionOptions padded{.mask = Mask::boolean(visible)};
  const Tensor many = Tensor::zeros({3, 4, 40, 8}), one = Tensor::zeros({3, 4, 1, 8});
  EXPECT_TRUE(compiles_mask(many, many, padded));
  EXPECT_FALSE(compiles_mask(one, many, {.mask = Mask::boolean(row)}));
  EXPECT_FALSE(compiles_mask(many, many, {.mask = padded.mask.compiled(1)}));
  EXPECT_FALSE(compiles_mask(many, many, {.mask = Mask::causal()}));
  // [tokens, heads, size]
  const Tensor several = Tensor::of<std::int32_t>({4}, {0, 1, 41, 42}),
               single = Tensor::of<std::int64_t>({4}, {0, 1, 1, 2}),
               keys = Tensor::of<std::int64_t>({4}, {0, 40, 40, 80});
  for (const std::int64_t heads : {1, 4}) {
    const Tensor tokens = Tensor::zeros({42, heads, 8});
    EXPECT_TRUE(compiles_mask(tokens, tokens, {.mask = padded.mask, .offsets_query = several, .offsets_key = several}))
        << heads;
    EXPECT_FALSE(compiles_mask(tokens.view().slice(0, 0, 2), Tensor::zeros({80, heads, 8}),
                               {.mask = Mask::boolean(row), .offsets_query = single, .offsets_key = keys}))
        << heads;
  }
}

// A lower triangle: about half of the tiles hold nothing, which only a compiled mask tells.
TEST(AttentionRules, APackedBatchOfOneHeadSkipsTiles) {
  constexpr std::int64_t kLength = 1000;
  Tensor triangle = Tensor::zeros({kLength, kLength}, Dtype::u8);
  for (std::int64_t i = 0; i < kLength; ++i) std::fill_n(triangle.data<std::uint8_t>() + i * kLength, i + 1, 1);
  const Tensor q = Tensor::zeros({kLength, 1, 8}), offsets = Tensor::of<std::int32_t>({2}, {0, kLength});
  const AttentionPlan found =
      plan(q, q, q, {.mask = Mask::boolean(triangle), .offsets_query = offsets, .offsets_key = offsets, .threads = 1});
  EXPECT_GT(found.skipped_tiles, found.tiles * 2 / 5);
}

QKV_ON_EACH_TARGET(MasksByHand);

// Equal logits: a query's weight of each key that it sees is 1 / their number, and the values are the unit vectors. A
// line of `seen` for each query, 'x' for a visible key.
void expect_seen(const Mask& mask, const std::vector<std::string>& seen) {
  const auto q_len = std::ssize(seen), k_len = std::ssize(seen[0]);
  const Tensor q = Tensor::zeros({1, 1, q_len, 3}), k = Tensor::zeros({1, 1, k_len, 3});
  Tensor v = Tensor::zeros({1, 1, k_len, k_len});
  for (std::int64_t j = 0; j < k_len; ++j) v.view().at<float>({0, 0, j, j}) = 1;
  const Tensor out = attention(q, k, v, {.mask = mask});
  for (std::int64_t i = 0; i < q_len; ++i) {
    const std::string& line = seen[static_cast<std::size_t>(i)];
    const auto visible = static_cast<float>(std::count(line.begin(), line.end(), 'x'));
    for (std::int64_t j = 0; j < k_len; ++j) {
      const bool sees = line[static_cast<std::size_t>(j)] == 'x';
      EXPECT_FLOAT_EQ(out.view().at<float>({0, 0, i, j}), sees ? 1 / visible : 0) << "query " << i << ", key " << j;
    }
  }
}

TEST_P(MasksByHand, PrefixIsSeenByAll) {
  const Tensor two = Tensor::of<std::int32_t>({1}, {2}), none = Tensor::of<std::int64_t>({1}, {0}),
               many = Tensor::of<std::int64_t>({1}, {1000});
  expect_seen(Mask::prefix(two), {"xx...", "xx...", "xxx..", "xxxx.", "xxxxx"});
  expect_seen(Mask::prefix(two, Align::bottom_right), {"xxx..", "xxxx.", "xxxxx"});
  expect_seen(Mask::prefix(two) & Mask::prefix(none), {"x....", "xx...", "xxx.."});
  expect_seen(Mask::prefix(many), {"xxx", "xxx"});
  expect_seen(Mask::prefix(two) & Mask::window(1, -1), {"xx..", "xx..", ".xx."});
  expect_seen(Mask::prefix(two), {"xx..."});  // a single query
  expect_seen(Mask::prefix(two, Align::bottom_right), {"xxxxx"});
}

TEST_P(MasksByHand, DilatedWindowSeesEveryStepth) {
  expect_seen(Mask::dilated(1, 1, 2), {"x.x..", ".x.x.", "x.x.x", ".x.x.", "..x.x"});
  expect_seen(Mask::dilated(-1, 0, 3), {"x.....", ".x....", "..x...", "x..x..", ".x..x.", "..x..x"});
  expect_seen(Mask::dilated(1, -1, 2, Align::bottom_right), {"..x.x.x", "...x.x.", "....x.x"});
  expect_seen(Mask::dilated(-1, -1, 2) & Mask::dilated(-1, -1, 3), {"x.....x", ".x.....", "..x...."});
  expect_seen(Mask::dilated(-1, -1, 2, Align::bottom_right), {".x.x.x"});  // a single query
  expect_seen(Mask::dilated(2, 2, std::int64_t{1} << 40), {"x..", ".x.", "..x"});
  expect_seen(Mask::dilated(1, 1, 1), {"xx...", "xxx.."});
}

TEST_P(MasksByHand, ChunksSeeThemselves) {
  expect_seen(Mask::chunks(2), {"xx...", "xx...", "..xx.", "..xx.", "....x"});
  expect_seen(Mask::chunks(3) & Mask::causal(), {"x....", "xx...", "xxx..", "...x.", "...xx"});
  expect_seen(Mask::chunks(2, Align::bottom_right), {"..xx.", "..xx.", "....x"});
  expect_seen(Mask::chunks(3, Align::bottom_right), {"..", "..", "xx", "xx"});  // the first two are before all keys
  expect_seen(Mask::chunks(2) & Mask::chunks(3), {"xx....", "xx....", "..x...", "...x..", "....xx", "....xx"});
  expect_seen(Mask::chunks(1), {"x..", ".x.", "..x"});
  expect_seen(Mask::chunks(std::int64_t{1} << 40), {"xx", "xx"});
  expect_seen(Mask::chunks(3, Align::bottom_right), {"...xx"});  // a single query
}

QKV_ON_EACH_TARGET(AttentionFunction);

TEST_P(AttentionFunction, LogitFunctionSeesLogitAndPosition) {
  Random random(3);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t q_len : {1, 5, 50}) {
      const Tensor q = testing::normal(random, {2, 3, q_len, 8}, dtype),
                   k = testing::normal(random, {2, 3, 70, 8}, dtype);
      const Tensor bias = testing::normal(random, {70}, dtype);
      const LogitFunction function = logit_function([](auto logit, const Pair& at) {
        return logit * 2 + at.batch * 1000 + at.head * 100 + at.position - at.key;
      });
      const AttentionOptions plain{.mask = Mask::causal(Align::bottom_right), .bias = Bias::view(bias)};
      AttentionOptions changed = plain;
      changed.logit_function = function;
      const Tensor before = testing::attend(q, k, k, plain).logits, after = testing::attend(q, k, k, changed).logits;
      const std::vector<double> x = testing::values(before), y = testing::values(after);
      for (std::size_t at = 0; at < x.size(); ++at) {
        const auto row = static_cast<std::int64_t>(at) / 70, key = static_cast<std::int64_t>(at) % 70;
        const std::int64_t position = row % q_len + 70 - q_len;
        const double wanted =
            x[at] * 2 + static_cast<double>(row / q_len / 3 * 1000 + row / q_len % 3 * 100 + position - key);
        if (std::isinf(x[at])) {
          EXPECT_EQ(y[at], x[at]);
        } else {
          EXPECT_NEAR(y[at], wanted, dtype == Dtype::f64 ? 1e-12 : 1e-3) << row << " " << key;
        }
      }
    }
  }
}

TEST(AttentionFunctionErrors, ExceptionsReachTheCaller) {
  const Tensor q = testing::filled({1, 2, 4}, 1);
  const MaskFunction throws = mask_function([](const Pair&) -> bool { throw std::runtime_error("mine"); });
  EXPECT_THROW(attention(q, q, q, {.mask = Mask::function(throws)}), std::runtime_error);
}

// Weights of keys 9, 6, 3 and 0: e^0, e^-sqrt(3), e^-sqrt(6), e^-3, over their sum.
TEST(AttentionFunctionExample, PrintsOneRowOfWeights) {
  FILE* pipe = popen(QKV_EXAMPLE, "r");
  ASSERT_NE(pipe, nullptr);
  char line[256] = {};
  EXPECT_NE(std::fgets(line, sizeof line, pipe), nullptr);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_STREQ(line, "0.038 0.000 0.000 0.066 0.000 0.000 0.135 0.000 0.000 0.762 \n");
}

TEST(Arena, ADryRunCountsWhatARealOneTakes) {
  MemoryCount arguments(1000);
  arguments.keep(100);
  Arena dry = Arena::dry(arguments), real(arguments);
  for (Arena* arena : {&dry, &real}) {
    const MutableTensorView kept = arena->take({10}, Dtype::f32);
    EXPECT_EQ(kept.bytes() == unallocated(), arena->is_dry());
    {
      const Arena::Frame frame(*arena);
      EXPECT_EQ(arena->copy(kept, Dtype::f64).dtype(), Dtype::f64);
      arena->borrow(20);
    }
    EXPECT_EQ(arena->take({5}, Dtype::u8).element_count(), 5);
    EXPECT_EQ(arena->kept(), 145u);
    EXPECT_EQ(arena->most_with(0), 240u);
    EXPECT_THROW(arena->take({1000}, Dtype::u8), std::invalid_argument);
  }
}

}  // namespace
}  // namespace qkv
