// How soon a call ends that was told to: every pass asks the stop token once per tile at least, which is counted; and
// none does more than the tile it is in, which a user's mask function sees. Time is no part of it.
#include "attention/attention_testing.h"
#include "attention/options/compiled_mask.h"
#include "core/stop.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/error.h"
#include "qkv/threads.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

using test::questions_of;

// A caller's pool of one thread, this one.
void one_by_one(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = 0; index < tasks; ++index) task(context, index, 0);
}

// All four passes over arrays of one batch. The log-sum-exp need not be right.
struct Passes {
  Passes(std::int64_t heads, std::int64_t kv_heads, std::int64_t q_len, std::int64_t k_len, std::int64_t size = 8) {
    Random random(1);
    q = testing::normal(random, {1, heads, q_len, size});
    k = testing::normal(random, {1, kv_heads, k_len, size});
    out = grad_query = Tensor::zeros(q.shape());
    grad_key = Tensor::zeros(k.shape());
    log_sum_exp = Tensor::zeros({1, heads, q_len});
  }
  void forward(const AttentionOptions& options, const AttentionExtras& extras = {}) {
    attention(q, k, k, out, options, extras);
  }

  struct Pass {
    int products;  // of each pair, as many multiply-adds as a head is large; or fewer
    int walks;     // over the tiles
    std::function<void(const AttentionOptions&)> run;
  };
  std::vector<Pass> all() {
    return {{2, 1, [this](const AttentionOptions& options) { forward(options); }},
            {5, 1,
             [this](const AttentionOptions& options) {
               attention_backward(q, k, k, q, log_sum_exp, q, options, {.query = grad_query, .key = grad_key});
             }},
            {6, 1,
             [this](const AttentionOptions& options) {
               attention_jvp(q, k, k, q, log_sum_exp, {.query = q, .key = k}, options, {.out = out});
             }},
            {14, 2, [this](const AttentionOptions& options) {
               attention_double_backward(q, k, k, q, log_sum_exp, q, {.query = q, .key = k}, options,
                                         {.query = grad_query, .key = grad_key});
             }}};
  }

  Tensor q, k, out, log_sum_exp, grad_query, grad_key;
};

QKV_ON_EACH_TARGET(AttentionStops);

TEST_P(AttentionStops, AskedOncePerTileInEveryPass) {
  Passes passes(2, 2, 130, 1500);
  Random random(2);
  const Tensor lengths = Tensor::of<std::int32_t>({1}, {1100}), flips = testing::coin_flips(random, {130, 1500}, 0.5);
  for (const Mask& mask : {Mask(), Mask::causal(Align::bottom_right), Mask::window(60, 60, Align::bottom_right),
                           Mask::lengths(lengths), Mask::boolean(flips)}) {
    const AttentionOptions options{.mask = mask, .threads = 1};
    const AttentionPlan plan = qkv::plan(passes.q, passes.k, passes.k, options);
    const std::int64_t tiles = plan.tiles - plan.skipped_tiles;
    for (const Passes::Pass& pass : passes.all()) {
      EXPECT_GE(questions_of([&] { pass.run(options); }), pass.walks * tiles) << pass.products;
    }
    Tensor entropy = Tensor::zeros(passes.log_sum_exp.shape());  // by a second look at the keys
    EXPECT_GE(questions_of([&] { passes.forward(options, {.entropy = entropy}); }), 2 * tiles);
  }
}

// Of folded heads and of keys that threads share; of a single query a tile is a chunk of keys, which two heads share,
// and weights take a second look.
TEST_P(AttentionStops, AskedOncePerTileOfFewQueries) {
  for (const int threads : {1, 4}) {
    const AttentionOptions options{.threads = threads};
    Passes folded(8, 1, 2, 9000), single(4, 2, 1, 9000);
    set_parallel_runner(one_by_one);
    const AttentionPlan plan = qkv::plan(folded.q, folded.k, folded.k, options);
    EXPECT_GE(questions_of([&] { folded.forward(options); }), plan.tiles - plan.skipped_tiles);
    const std::int64_t tiles = qkv::plan(single.q, single.k, single.k, options).tiles;
    EXPECT_GE(questions_of([&] { single.forward(options); }), tiles / 2);
    Tensor weights = Tensor::zeros({1, 4, 1, 9000});
    EXPECT_GE(questions_of([&] { single.forward(options, {.weights = weights}); }), tiles);
    set_parallel_runner(nullptr);
  }
}

// 16 queries and 512 keys at a time, before attention itself begins.
TEST_P(AttentionStops, AskedWhileAMaskIsCompiled) {
  const Tensor mask = Tensor::zeros({2, 100, 5000}, Dtype::boolean);
  EXPECT_GE(questions_of([&] { BooleanBlocks(mask, 1); }), 2 * 7 * 10);
  std::stop_source source;
  source.request_stop();
  const std::stop_token token = source.get_token();
  {
    const StopScope scope(token);
    EXPECT_EQ(questions_of([&] { EXPECT_THROW(BooleanBlocks(mask, 1), Stopped); }), 1);
  }
  Passes passes(2, 2, 100, 5000);
  const AttentionOptions options{.mask = Mask::boolean(mask), .threads = 1, .stop = source.get_token()};
  for (const Passes::Pass& pass : passes.all()) {
    if (pass.products > 5) continue;  // booleans are not compiled for tangents
    EXPECT_EQ(questions_of([&] { EXPECT_THROW(pass.run(options), Stopped); }), 1);
  }
}

// The function of a mask is called for a tile at a time: the call in which it asks for an end is the last one.
TEST_P(AttentionStops, NoTileAfterTheOneThatAskedForIt) {
  Passes passes(2, 2, 130, 1500);
  for (const std::int64_t at : {1, 5000, 100000}) {
    for (const Passes::Pass& pass : passes.all()) {
      std::stop_source source;
      std::int64_t calls = 0, last_tile = -1, tiles_after = 0;
      const Mask mask = Mask::function(mask_function([&](const Pair& pair) {
        const std::int64_t tile = pair.key / 4;  // of the narrowest
        if (++calls == at) source.request_stop(), last_tile = tile;
        if (calls > at && std::abs(tile - last_tile) > 1) ++tiles_after;
        return true;
      }));
      EXPECT_THROW(pass.run({.mask = mask, .threads = 1, .stop = source.get_token()}), Stopped);
      EXPECT_GE(calls, at);
      EXPECT_EQ(tiles_after, 0);
    }
  }
}

TEST_P(AttentionStops, LittleIsDoneBetweenTwoQuestions) {
  constexpr std::int64_t kSize = 512;
  Passes passes(1, 1, 64, 1200, kSize);
  std::int64_t pairs = 0;
  const AttentionOptions options{.mask = Mask::function(mask_function([&](const Pair&) { return ++pairs > 0; })),
                                 .threads = 1};
  for (const Passes::Pass& pass : passes.all()) {
    const auto done = [&] { return pairs * pass.products * kSize; };
    EXPECT_LE(test::largest_gap([&] { pass.run(options); }, done), kStopWork) << pass.products;
  }
}

TEST_P(AttentionStops, BeforeTheCall) {
  Random random(3);
  const Tensor q = testing::normal(random, {1, 2, 300, 16});
  std::stop_source source;
  const AttentionOptions options{.stop = source.get_token()};
  const Tensor out = attention(q, q, q, options);  // a token that asks for nothing changes nothing
  EXPECT_TRUE(testing::same_bits(out, attention(q, q, q)));
  source.request_stop();
  EXPECT_THROW(attention(q, q, q, options), Stopped);
  EXPECT_THROW(attention(q.view().slice(2, 0, 1), q, q, options), Stopped);
  EXPECT_TRUE(testing::same_bits(out, attention(q, q, q)));  // and the next call is untouched
}

// A caller's pool that asks for a stop once the first task is done.
std::stop_source* source_of_runner = nullptr;

void stopping_runner(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = 0; index < tasks; ++index) {
    task(context, index, 0);
    source_of_runner->request_stop();
  }
}

// Also while threads share keys.
TEST_P(AttentionStops, DuringTheCall) {
  for (const auto& [batch, q_len, k_len] : {std::tuple(4, 300, 300), {1, 2, 5000}}) {
    const Tensor q = testing::filled({batch, 1, q_len, 16}, 1), k = testing::filled({batch, 1, k_len, 16}, 1);
    std::stop_source source;
    source_of_runner = &source;
    set_parallel_runner(stopping_runner);
    EXPECT_THROW(attention(q, k, k, {.threads = 2, .stop = source.get_token()}), Stopped);
    set_parallel_runner(nullptr);
    EXPECT_TRUE(source.stop_requested());
  }
}

}  // namespace
}  // namespace qkv
