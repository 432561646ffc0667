// Keys of few queries split over threads: the bits of one thread, in any form, type and mask; in how much memory, and
// in which order.
#include "attention/call/key_split.h"

#include <atomic>

#include "attention/attention_testing.h"
#include "qkv/attention/attention_plan.h"

namespace qkv {
namespace {

using testing::attend_plainly;
using testing::normal;
using testing::PlainOutcome;
using testing::same_bits;

constexpr Dtype kFloating[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16};

// A caller's pool that begins with the last task: every part must wait for those in front of it.
void backwards(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = tasks; index-- > 0;) task(context, index, 0);
}

// `parts`: blocks of queries times the chunks of keys that they see; more threads than that have nothing to do.
void expect_bits_of_one_thread(const TensorView& q, const TensorView& k, const TensorView& v, AttentionOptions options,
                               std::int64_t parts) {
  options.threads = 1;
  const PlainOutcome one = attend_plainly(q, k, v, options);
  for (const int threads : {2, 3, 4, 7, 16}) {
    options.threads = threads;
    EXPECT_EQ(plan(q, k, v, options).threads, std::min<std::int64_t>(threads, parts));
    EXPECT_TRUE(same_bits(attend_plainly(q, k, v, options), one)) << threads << " threads";
  }
  set_parallel_runner(backwards);
  EXPECT_TRUE(same_bits(attend_plainly(q, k, v, options), one)) << "backwards";
  set_parallel_runner(nullptr);
}

QKV_ON_EACH_TARGET(KeySplits);

// One block of queries over 3100 keys, four chunks.
TEST_P(KeySplits, EveryMaskTypeAndBias) {
  const Tensor sinks = testing::filled({1}, 0.5), slopes = testing::filled({1}, 0.01);
  const Tensor lengths = Tensor::of<std::int32_t>({1}, {2500}), nothing = Tensor::of<std::int32_t>({1}, {0});
  const std::int64_t most = plan({nullptr, Dtype::f64, {1, 1, 2, 8}}, {nullptr, Dtype::f64, {1, 1, 2, 8}},
                                 {nullptr, Dtype::f64, {1, 1, 2, 8}})
                                .block_queries;
  for (const Dtype dtype : kFloating) {
    for (const std::int64_t q_len : {2, 3, 8, 16}) {
      if (q_len > most) continue;
      Random random(1);
      const Tensor q = normal(random, {1, 1, q_len, 20}, dtype), k = normal(random, {1, 1, 3100, 20}, dtype);
      const Tensor v = normal(random, {1, 1, 3100, 9}, dtype);
      const Tensor flips = testing::coin_flips(random, {q_len, 3100}, 0.5);
      Tensor squares = testing::coin_flips(random, {q_len, 3100}, 0.1);
      testing::repeat_in_squares(squares, 64);
      // Query 0 sees nothing, query 1 nothing of the second chunk.
      Tensor bias = normal(random, {q_len, 3100}, dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32);
      for (std::int64_t j = 0; j < 3100; ++j) {
        const auto hide = [&](auto zero, std::int64_t i) {
          bias.view().at<decltype(zero)>({i, j}) = -testing::kInfinity;
        };
        for (const std::int64_t i : {0, 1}) {
          if (i == 0 || j / 1024 == 1) dtype == Dtype::f64 ? hide(0.0, i) : hide(0.0f, i);
        }
      }
      std::vector<std::int32_t> query_ids, key_ids;
      for (std::int64_t i = 0; i < q_len; ++i) query_ids.push_back(static_cast<std::int32_t>(i % 2));
      for (std::int64_t j = 0; j < 3100; ++j) key_ids.push_back(static_cast<std::int32_t>(j / 1100));
      const Tensor of_queries = Tensor::of({q_len}, query_ids), of_keys = Tensor::of({3100}, key_ids);
      AttentionOptions sunk{.mask = Mask::lengths(lengths)}, reduced{.mask = Mask::causal(Align::bottom_right)};
      sunk.sinks = sinks;
      reduced.precision = Precision::reduced;
      const std::pair<AttentionOptions, std::int64_t> all[] = {
          {{}, 4},
          {{.mask = Mask::causal(Align::bottom_right)}, 4},
          {{.mask = Mask::causal(Align::top_left)}, 1},
          {{.mask = Mask::window(1500, 0, Align::bottom_right), .soft_cap = 2}, 3},
          {{.mask = Mask::lengths(nothing)}, 1},
          {{.mask = Mask::boolean(flips)}, 4},
          {{.mask = Mask::boolean(squares) & Mask::window(2900, 0, Align::bottom_right)}, 4},
          {{.mask = Mask::documents(of_queries, of_keys)}, 3},
          {{.bias = Bias::view(bias)}, 4},
          {{.bias = Bias::alibi(slopes), .dropout = {.p = 0.3, .seed = 7}}, 4},
          {sunk, 3},
          {reduced, 4}};
      for (std::size_t i = 0; i < std::size(all); ++i) {
        SCOPED_TRACE(::testing::Message() << name_of(dtype) << ", " << q_len << " queries, options " << i);
        expect_bits_of_one_thread(q, k, v, all[i].first, all[i].second);
      }
    }
  }
}

// Full blocks, and one that is not.
TEST_P(KeySplits, BlocksOfQueries) {
  Random random(2);
  const Tensor k = normal(random, {2, 4200, 32}), v = normal(random, {2, 4200, 24});
  for (const Precision precision : {Precision::exact, Precision::reduced}) {
    AttentionOptions options{.mask = Mask::causal(Align::bottom_right)};
    options.precision = precision;
    const std::int64_t block = plan(k, k, v, options).block_queries;
    for (const std::int64_t q_len : {block, 2 * block + 5}) {
      SCOPED_TRACE(q_len);
      const Tensor q = normal(random, {2, q_len, 32});
      expect_bits_of_one_thread(q, k, v, options, 2 * ((q_len + block - 1) / block) * 5);
    }
  }
}

// Heads that share keys share a block, whose keys are split, where they would else stay apart to give work to threads.
TEST_P(KeySplits, GroupedHeads) {
  for (const Dtype dtype : kFloating) {
    Random random(3);
    const Tensor q = normal(random, {10, 2, 16}, dtype), k = normal(random, {2, 8200, 16}, dtype);
    AttentionOptions options{.mask = Mask::causal(Align::bottom_right), .threads = 1};
    const PlainOutcome one = attend_plainly(q, k, k, options);
    for (const int threads : {2, 3, 4, 7, 16}) {
      options.threads = threads;
      EXPECT_EQ(plan(q, k, k, options).threads, threads);
      EXPECT_TRUE(same_bits(attend_plainly(q, k, k, options), one)) << threads;
    }
    const AttentionPlan shared = plan(q, k, k, options);
    if (shared.block_queries < 10) continue;
    EXPECT_EQ(shared.tiles, 2 * ((8200 + shared.tile_keys - 1) / shared.tile_keys));
  }
}

TEST_P(KeySplits, PackedAmongLongerAndSingleQueries) {
  Random random(4);
  const Tensor offsets_query = Tensor::of<std::int32_t>({6}, {0, 3, 4, 34, 34, 36});
  const Tensor offsets_key = Tensor::of<std::int32_t>({6}, {0, 2500, 5600, 8000, 8010, 8011});
  const Tensor q = normal(random, {36, 6, 16}), k = normal(random, {8011, 2, 16});
  AttentionOptions options{.mask = Mask::causal(Align::bottom_right), .threads = 1};
  options.offsets_query = offsets_query, options.offsets_key = offsets_key;
  const PlainOutcome one = attend_plainly(q, k, k, options);
  for (const int threads : {2, 3, 4, 7, 16, 40}) {
    options.threads = threads;
    EXPECT_EQ(plan(q, k, k, options).kernel, "prefill and decode");
    EXPECT_TRUE(same_bits(attend_plainly(q, k, k, options), one)) << threads;
  }
}

TEST_P(KeySplits, Pages) {
  Random random(5);
  const Tensor q = normal(random, {1, 2, 3, 16}, Dtype::bf16), k = normal(random, {100, 33, 1, 16}, Dtype::bf16);
  std::vector<std::int32_t> order;
  for (std::int32_t i = 0; i < 100; ++i) order.push_back(i * 37 % 100);
  const Tensor block_table = Tensor::of({1, 100}, order), lengths = Tensor::of<std::int32_t>({1}, {3210});
  AttentionOptions options{.mask = Mask::lengths(lengths) & Mask::causal(Align::bottom_right)};
  options.block_table = block_table;
  expect_bits_of_one_thread(q, k, k, options, 8);
}

// Large values leave room for few parts at a time, and the keys take several waves.
TEST_P(KeySplits, SeveralWaves) {
  Random random(6);
  const Tensor q = normal(random, {2, 16}), k = normal(random, {6000, 16}), v = normal(random, {6000, 1000});
  EXPECT_LE(plan(q, k, v, {.threads = 2}).workspace, 2 << 20);
  expect_bits_of_one_thread(q, k, v, {.mask = Mask::causal(Align::bottom_right)}, 6);
}

TEST_P(KeySplits, WithinAMebibyteAThread) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    for (const std::int64_t size : {16, 128, 600, 1024}) {
      for (const std::int64_t q_len : {1, 4, 48, 100}) {
        for (const int threads : {2, 3, 16, 64}) {
          const TensorView q(nullptr, dtype, {1, 8, q_len, size}), k(nullptr, dtype, {1, 2, 1 << 20, size});
          EXPECT_LE(plan(q, k, k, {.threads = threads}).workspace, std::int64_t{threads} << 20)
              << name_of(dtype) << " " << size << ", " << q_len << " queries, " << threads << " threads";
        }
      }
    }
  }
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
         {std::pair<int, ParallelRunner>(2, nullptr), {4, nullptr}, {8, nullptr}, {4, backwards}}) {
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
