// How soon a call ends that was told to: every pass asks the stop token once per tile at least, which is counted; and
// none does more than the tile it is in, which a user's mask function sees. Time is no part of it.
#include <algorithm>
#include <stop_token>

#include "attention/attention_testing.h"
#include "core/compiled_mask.h"
#include "core/stop.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/error.h"
#include "qkv/threads.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

// A caller's pool of one thread, this one.
void one_by_one(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = 0; index < tasks; ++index) task(context, index, 0);
}

template <class Call>
std::int64_t checks_of(const Call& call) {
  const std::int64_t before = stop_checks();
  call();
  return stop_checks() - before;
}

// Arrays for all four passes. The log-sum-exp need not be right.
struct Arrays {
  Arrays(std::int64_t heads, std::int64_t kv_heads, std::int64_t q_len, std::int64_t k_len, std::int64_t size = 8) {
    Random random(1);
    q = testing::normal(random, {1, heads, q_len, size});
    k = testing::normal(random, {1, kv_heads, k_len, size});
    out = Tensor::zeros(q.shape());
    log_sum_exp = Tensor::zeros({1, heads, q_len});
    grad_query = Tensor::zeros(q.shape());
    grad_key = Tensor::zeros(k.shape());
  }
  void forward(const AttentionOptions& options, const AttentionExtras& extras = {}) {
    attention(q, k, k, out, options, extras);
  }
  void backward(const AttentionOptions& options) {
    attention_backward(q, k, k, q, log_sum_exp, q, options, {.query = grad_query, .key = grad_key});
  }
  void jvp(const AttentionOptions& options) {
    attention_jvp(q, k, k, q, log_sum_exp, {.query = q, .key = k}, options, {.out = out});
  }
  void double_backward(const AttentionOptions& options) {
    attention_double_backward(q, k, k, q, log_sum_exp, q, {.query = q, .key = k}, options,
                              {.query = grad_query, .key = grad_key});
  }

  Tensor q, k, out, log_sum_exp, grad_query, grad_key;
};

QKV_ON_EACH_TARGET(AttentionStops);

TEST_P(AttentionStops, AskedOncePerTileInEveryPass) {
  Arrays arrays(2, 2, 130, 1500);
  Random random(2);
  const Tensor lengths = Tensor::of<std::int32_t>({1}, {1100}), flips = testing::coin_flips(random, {130, 1500}, 0.5);
  for (const Mask& mask : {Mask(), Mask::causal(Align::bottom_right), Mask::window(60, 60, Align::bottom_right),
                           Mask::lengths(lengths), Mask::boolean(flips)}) {
    const AttentionOptions options{.mask = mask, .threads = 1};
    const AttentionPlan plan = qkv::plan(arrays.q, arrays.k, arrays.k, options);
    const std::int64_t tiles = plan.tiles - plan.skipped_tiles;
    EXPECT_GE(checks_of([&] { arrays.forward(options); }), tiles);
    EXPECT_GE(checks_of([&] { arrays.backward(options); }), tiles);
    EXPECT_GE(checks_of([&] { arrays.jvp(options); }), tiles);
    EXPECT_GE(checks_of([&] { arrays.double_backward(options); }), 2 * tiles);
    Tensor entropy = Tensor::zeros(arrays.log_sum_exp.shape());  // by a second look at the keys
    EXPECT_GE(checks_of([&] { arrays.forward(options, {.entropy = entropy}); }), 2 * tiles);
  }
}

TEST_P(AttentionStops, AskedOncePerTileOfFoldedHeadsAndOfSharedKeys) {
  for (const int threads : {1, 2}) {
    Arrays arrays(8, 1, 2, 9000);
    const AttentionOptions options{.threads = threads};
    const AttentionPlan plan = qkv::plan(arrays.q, arrays.k, arrays.k, options);
    if (plan.block_queries < 4) GTEST_SKIP() << "a block holds no two heads";
    ASSERT_TRUE(std::any_of(plan.remarks.begin(), plan.remarks.end(),
                            [](const std::string& line) { return line.find("share a block") != std::string::npos; }));
    set_parallel_runner(one_by_one);
    EXPECT_GE(checks_of([&] { arrays.forward(options); }), plan.tiles - plan.skipped_tiles);
    set_parallel_runner(nullptr);
  }
}

// A tile of decoding is a chunk of keys; weights take a second look.
TEST_P(AttentionStops, AskedOncePerChunkOfASingleQuery) {
  Arrays arrays(4, 2, 1, 9000);
  for (const int threads : {1, 4}) {
    const AttentionOptions options{.threads = threads};
    const AttentionPlan plan = qkv::plan(arrays.q, arrays.k, arrays.k, options);
    set_parallel_runner(one_by_one);
    EXPECT_GE(checks_of([&] { arrays.forward(options); }), plan.tiles / 2);  // which two heads share
    Tensor weights = Tensor::zeros({1, 4, 1, 9000});
    EXPECT_GE(checks_of([&] { arrays.forward(options, {.weights = weights}); }), plan.tiles);
    set_parallel_runner(nullptr);
  }
}

// 16 queries and 512 keys at a time.
TEST_P(AttentionStops, AskedWhileAMaskIsCompiled) {
  const Tensor mask = Tensor::zeros({2, 100, 5000}, Dtype::boolean);
  EXPECT_GE(checks_of([&] { BooleanBlocks(mask, 1); }), 2 * 7 * 10);
  std::stop_source source;
  source.request_stop();
  const std::stop_token token = source.get_token();
  {
    const StopScope scope(token);
    EXPECT_EQ(checks_of([&] { EXPECT_THROW(BooleanBlocks(mask, 1), Stopped); }), 1);
  }
  // Before attention itself begins.
  Arrays arrays(2, 2, 100, 5000);
  const AttentionOptions options{.mask = Mask::boolean(mask), .threads = 1, .stop = source.get_token()};
  EXPECT_EQ(checks_of([&] { EXPECT_THROW(arrays.forward(options), Stopped); }), 1);
  EXPECT_EQ(checks_of([&] { EXPECT_THROW(arrays.backward(options), Stopped); }), 1);
}

// The function of a mask is called for a tile at a time: the call in which it asks for an end is the last one.
TEST_P(AttentionStops, NoTileAfterTheOneThatAskedForIt) {
  Arrays arrays(2, 2, 130, 1500);
  const auto passes = {&Arrays::backward, &Arrays::jvp, &Arrays::double_backward};
  const auto expect_last = [&](std::int64_t at, const auto& run) {
    std::stop_source source;
    std::int64_t calls = 0, last_tile = -1, tiles_after = 0;
    const Mask mask = Mask::function(mask_function([&](const Pair& pair) {
      const std::int64_t tile = pair.key / 4;  // of the narrowest
      if (++calls == at) source.request_stop(), last_tile = tile;
      if (calls > at && std::abs(tile - last_tile) > 1) ++tiles_after;
      return true;
    }));
    EXPECT_THROW(run(AttentionOptions{.mask = mask, .threads = 1, .stop = source.get_token()}), Stopped);
    EXPECT_GE(calls, at);
    EXPECT_EQ(tiles_after, 0);
  };
  for (const std::int64_t at : {1, 5000, 100000}) {
    expect_last(at, [&](const AttentionOptions& options) { arrays.forward(options); });
    for (const auto& pass : passes) {
      expect_last(at, [&](const AttentionOptions& options) { (arrays.*pass)(options); });
    }
  }
}

// A pair is as many multiply-adds as its head is large, for each product of a pass: 2, 5, 6 and 14 or fewer.
TEST_P(AttentionStops, LittleIsDoneBetweenTwoQuestions) {
  constexpr std::int64_t kSize = 512;
  Arrays arrays(1, 1, 64, 1200, kSize);
  std::int64_t pairs = 0;
  const AttentionOptions options{.mask = Mask::function(mask_function([&](const Pair&) { return ++pairs > 0; })),
                                 .threads = 1};
  const auto gap = [&](std::int64_t products, const auto& pass) {
    return test::largest_gap([&] { pass(); }, [&] { return pairs * products * kSize; });
  };
  EXPECT_LE(gap(2, [&] { arrays.forward(options); }), kStopWork);
  EXPECT_LE(gap(5, [&] { arrays.backward(options); }), kStopWork);
  EXPECT_LE(gap(6, [&] { arrays.jvp(options); }), kStopWork);
  EXPECT_LE(gap(14, [&] { arrays.double_backward(options); }), kStopWork);
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

void expect_stopped(const TensorView& q, const TensorView& k) {
  std::stop_source source;
  source_of_runner = &source;
  set_parallel_runner(stopping_runner);
  EXPECT_THROW(attention(q, k, k, {.threads = 2, .stop = source.get_token()}), Stopped);
  set_parallel_runner(nullptr);
  EXPECT_TRUE(source.stop_requested());
}

TEST_P(AttentionStops, DuringTheCall) {
  Random random(4);
  const Tensor q = testing::normal(random, {4, 2, 300, 16});
  expect_stopped(q, q);
}

TEST_P(AttentionStops, WhileThreadsShareKeys) {
  Random random(5);
  const Tensor q = testing::normal(random, {2, 16}), k = testing::normal(random, {5000, 16});
  expect_stopped(q, k);
}

}  // namespace
}  // namespace qkv
