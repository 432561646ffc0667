// Heads that share a block of queries, and threads that share its keys: where they do, in how much memory and in which
// order. That no bit changes is a relation of same_bits_test.cc.
#include "attention/call/key_split.h"

#include "attention/attention_testing.h"
#include "qkv/attention/attention_plan.h"

namespace qkv {
namespace {

using testing::filled;

// A caller's pool that begins with the last task: every part must wait for those in front of it.
void last_task_first(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = tasks; index-- > 0;) task(context, index, 0);
}

QKV_ON_EACH_TARGET(FoldedHeads);

// What differs from head to head, or tells of weights, keeps heads apart; so does work for more threads.
TEST_P(FoldedHeads, OnlyWhereQueriesAloneDiffer) {
  if (GetParam() == "portable") GTEST_SKIP() << "a block holds three queries";
  const TensorView q(nullptr, Dtype::f32, {1, 8, 2, 32}), k(nullptr, Dtype::f32, {1, 2, 500, 32});
  const TensorView long_q(nullptr, Dtype::f32, {1, 8, 25, 32}), two_heads(nullptr, Dtype::f32, {1, 2, 4, 32});
  const Tensor slopes = filled({8}, 0.5), sinks = filled({8}, 1), bias = Tensor::zeros({2, 500});
  const Tensor visible = filled({2, 500}, 1, Dtype::boolean), by_head = filled({8, 2, 500}, 1, Dtype::boolean);
  const auto folds = [&](const TensorView& queries, const AttentionOptions& options) {
    const AttentionPlan found = plan(queries, k, k, options);
    return std::any_of(found.remarks.begin(), found.remarks.end(),
                       [](const std::string& line) { return line.find("heads share a block") != std::string::npos; });
  };
  EXPECT_TRUE(folds(q, {.threads = 2}));
  EXPECT_FALSE(folds(q, {.threads = 8}));
  EXPECT_FALSE(folds(q, {.bias = Bias::alibi(slopes), .threads = 1}));
  EXPECT_FALSE(folds(q, {.bias = Bias::view(bias), .threads = 1}));
  EXPECT_TRUE(folds(q, {.mask = Mask::boolean(visible), .threads = 1}));
  EXPECT_FALSE(folds(q, {.mask = Mask::boolean(by_head), .threads = 1}));
  EXPECT_FALSE(folds(q, {.sinks = sinks, .threads = 1}));
  EXPECT_FALSE(folds(long_q, {.threads = 1}));
  EXPECT_FALSE(folds(two_heads, {.threads = 1}));
  const AttentionPlan found = plan(q, k, k, {.threads = 1});
  EXPECT_EQ(found.tiles, 2 * ((500 + found.tile_keys - 1) / found.tile_keys));
}

QKV_ON_EACH_TARGET(KeySplits);

// Blocks of queries times the chunks of keys that they see: more threads than that have nothing to do. Heads that share
// keys share a block, whose keys are split, where they would else stay apart to give work to threads.
TEST_P(KeySplits, GiveWorkToThreads) {
  const TensorView q(nullptr, Dtype::f32, {1, 1, 2, 20}), k(nullptr, Dtype::f32, {1, 1, 3100, 20});
  const Tensor lengths = Tensor::of<std::int32_t>({1}, {2500}), nothing = Tensor::of<std::int32_t>({1}, {0});
  const std::pair<Mask, int> masks[] = {{Mask(), 4},
                                        {Mask::causal(Align::bottom_right), 4},
                                        {Mask::causal(Align::top_left), 1},
                                        {Mask::window(1500, 0, Align::bottom_right), 3},
                                        {Mask::lengths(lengths), 3},
                                        {Mask::lengths(nothing), 1}};
  for (const auto& [mask, parts] : masks) {
    for (const int threads : {2, 3, 4, 7}) {
      EXPECT_EQ(plan(q, k, k, {.mask = mask, .threads = threads}).threads, std::min(threads, parts)) << parts;
    }
  }
  const TensorView grouped(nullptr, Dtype::f32, {10, 2, 16}), keys(nullptr, Dtype::f32, {2, 8200, 16});
  const AttentionPlan shared = plan(grouped, keys, keys, {.threads = 16});
  EXPECT_EQ(shared.threads, 16);
  if (shared.block_queries < 10) return;
  EXPECT_EQ(shared.tiles, 2 * ((8200 + shared.tile_keys - 1) / shared.tile_keys));
}

// Weights are written by a second look at the keys of a whole block.
TEST_P(KeySplits, NotWhereWeightsAreAskedFor) {
  const TensorView q(nullptr, Dtype::f32, {1, 1, 2, 16}), k(nullptr, Dtype::f32, {1, 1, 5000, 16});
  Tensor weights = Tensor::zeros({1, 1, 2, 5000});
  const AttentionPlan split = plan(q, k, k, {.threads = 4}),
                      whole = plan(q, k, k, {.threads = 4}, {.weights = weights});
  EXPECT_EQ(split.threads, 4);
  EXPECT_EQ(whole.threads, 1);
  EXPECT_EQ(whole.remarks.at(whole.remarks.size() - 1), "they also keep keys from being split over threads");
  Tensor largest = Tensor::zeros({1, 1, 2});
  const AttentionPlan with_largest = plan(q, k, k, {.threads = 4}, {.row_maximum = largest});
  EXPECT_EQ(with_largest.threads, 1);
  EXPECT_EQ(with_largest.remarks.back(), "row_maximum keeps keys from being split over threads");
  EXPECT_EQ(plan(q, k, k, {.threads = 4, .memory_limit = plan(q, k, k, {.threads = 1}).workspace}).threads, 1);
}

// A part is the number of chunks in it: each is added to all those in front of it, and a unit is finished once.
TEST(KeySplit, MergesInOrder) {
  for (const std::size_t part_bytes : {64, 50000}) {
    for (const auto& [threads, runner] :
         {std::pair<int, ParallelRunner>(2, nullptr), {4, nullptr}, {8, nullptr}, {4, last_task_first}}) {
      set_parallel_runner(runner);
      KeySplit split{.chunks = {90, 1, 33}, .part_bytes = part_bytes, .scratch_bytes = 64};
      EXPECT_EQ(split.busy_threads(threads), threads);
      EXPECT_LE(split.workspace(threads), std::size_t(threads) << 20);
      EXPECT_LT(split.wave(threads), 90);
      std::atomic<int> finished[3] = {};
      const auto number = [](const std::byte* part) -> std::int64_t {
        std::int64_t value = 0;
        std::memcpy(&value, part, sizeof(value));
        return value;
      };
      const auto set = [](std::byte* part, std::int64_t value) { std::memcpy(part, &value, sizeof(value)); };
      split.run(
          threads, [&](std::int64_t, std::int64_t index, const ScratchRoom&, std::byte* part) { set(part, index); },
          [&](std::int64_t, std::byte* part, const std::byte* next) {
            EXPECT_EQ(number(next), number(part) + 1);
            set(part, number(next));
          },
          [&](std::int64_t unit, const ScratchRoom&, const std::byte* part) {
            EXPECT_EQ(number(part), split.chunks[static_cast<std::size_t>(unit)] - 1);
            ++finished[unit];
          });
      set_parallel_runner(nullptr);
      for (const std::atomic<int>& times : finished) EXPECT_EQ(times, 1);
    }
  }
}

// Whole units where there are two for each thread or one for each, all alike, where none has a second chunk, and where
// parts do not fit.
TEST(KeySplit, OnlyWhereItHelps) {
  const KeySplit two{.chunks = {5, 1}, .part_bytes = 64, .whole_bytes = 100};
  EXPECT_EQ(two.wave(1), 0);
  EXPECT_EQ(two.workspace(1), 100u);
  EXPECT_EQ((KeySplit{.chunks = {5}, .part_bytes = 64, .unit_bytes = 8, .whole_bytes = 100}.workspace(1)), 108u);
  // Two threads' tiles, and of the one unit five parts at a time beside their sum.
  EXPECT_EQ((KeySplit{.chunks = {5}, .part_bytes = 64, .unit_bytes = 8, .scratch_bytes = 50}.workspace(2)),
            2u * 50 + 6 * 64 + 8);
  EXPECT_EQ(two.wave(2), 5);
  EXPECT_EQ(two.busy_threads(8), 6);
  EXPECT_EQ((KeySplit{.chunks = {5, 5, 5, 5}, .part_bytes = 64}.wave(2)), 0);
  EXPECT_EQ((KeySplit{.chunks = {5, 5}, .part_bytes = 64}.wave(2)), 0);
  EXPECT_EQ((KeySplit{.chunks = {5, 5, 5}, .part_bytes = 64}.wave(2)), 5);
  EXPECT_EQ((KeySplit{.chunks = {1, 1}, .part_bytes = 64}.wave(8)), 0);
  EXPECT_EQ((KeySplit{.chunks = {9}, .part_bytes = 1 << 20}.wave(2)), 0);
  EXPECT_EQ((KeySplit{.chunks = {9}, .part_bytes = 64, .scratch_bytes = 1 << 20}.wave(2)), 0);
  EXPECT_EQ(KeySplit{}.busy_threads(4), 0);
}

}  // namespace
}  // namespace qkv
