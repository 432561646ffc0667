// What plan() and its siblings say, against counts by hand and bounds, and which options must have a remark that says
// why a call is slower. A new option does not compile here until somebody has decided whether it belongs to them.
#include "qkv/attention/attention_plan.h"

#include "attention/attention_testing.h"
#include "io/files_for_test.h"

namespace qkv {
namespace {

using testing::normal;

AttentionPlan plan_of(std::int64_t heads, std::int64_t q_len, std::int64_t k_len, const AttentionOptions& options,
                      Dtype dtype = Dtype::f32) {
  return plan({nullptr, dtype, {1, heads, q_len, 64}}, {nullptr, dtype, {1, heads, k_len, 64}},
              {nullptr, dtype, {1, heads, k_len, 32}}, options);
}

bool has_remark(const AttentionPlan& plan, const std::string& part) {
  return std::any_of(plan.remarks.begin(), plan.remarks.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

// How many tiles sees(the queries of a block, the keys of a tile).
template <class Sees>
std::int64_t count_tiles(const AttentionPlan& plan, std::int64_t q_len, std::int64_t k_len, const Sees& sees) {
  std::int64_t tiles = 0;
  for (std::int64_t begin = 0; begin < q_len; begin += plan.block_queries) {
    for (std::int64_t key = 0; key < k_len; key += plan.tile_keys) {
      tiles += sees(begin, std::min(begin + plan.block_queries, q_len), key, std::min(key + plan.tile_keys, k_len));
    }
  }
  return tiles;
}

QKV_ON_EACH_TARGET(AttentionPlans);

TEST_P(AttentionPlans, CountsTiles) {
  const AttentionPlan full = plan_of(3, 480, 960, {.threads = 1});
  EXPECT_EQ(full.kernel, "prefill");
  EXPECT_EQ(full.target, GetParam());
  EXPECT_EQ(full.threads, 1);
  const std::int64_t blocks = (480 + full.block_queries - 1) / full.block_queries;
  EXPECT_EQ(full.tiles, 3 * blocks * (960 / full.tile_keys));
  EXPECT_EQ(full.skipped_tiles, 0);
  EXPECT_EQ(full.operations, 2.0 * 3 * 480 * 960 * (64 + 32));
  EXPECT_EQ(full.bytes, 4.0 * 3 * (480 * 64 + 960 * (64 + 32) + 480 * 32));
  EXPECT_TRUE(full.remarks.empty() || GetParam() != testing::usable_targets().front());
  // The last tile has two keys, whether it is computed or not.
  EXPECT_EQ(plan_of(1, 200, 330, {.threads = 1}).operations, 2.0 * 200 * 330 * (64 + 32));
  Tensor visible = testing::filled({330}, 1, Dtype::u8);
  for (const std::int64_t j : {328, 329}) visible.data<std::uint8_t>()[j] = 0;
  const AttentionPlan hidden = plan_of(1, 200, 330, {.mask = Mask::boolean(visible), .threads = 1});
  EXPECT_EQ(hidden.skipped_tiles, (200 + hidden.block_queries - 1) / hidden.block_queries);
  EXPECT_EQ(hidden.operations, 2.0 * 200 * 328 * (64 + 32));
  // 2^30 heads of 48 queries over 2^30 keys: more pairs than an integer holds.
  constexpr std::int64_t kMany = std::int64_t{1} << 30;
  const TensorView q(nullptr, Dtype::f32, {kMany, 48, 1}), k(nullptr, Dtype::f32, {1, kMany, 1});
  EXPECT_EQ(plan(q, k, k, {.threads = 1}).operations, 2 * (1 + 1) * 48 * 0x1p60);
}

TEST_P(AttentionPlans, CountsTilesThatIntervalsAndStepsHide) {
  // Pair by pair.
  const auto expect_seen = [](std::int64_t q_len, std::int64_t k_len, const Mask& mask, const auto& sees) {
    const AttentionPlan plan = plan_of(3, q_len, k_len, {.mask = mask, .threads = 1});
    const std::int64_t seen = count_tiles(plan, q_len, k_len, [&](auto begin, auto end, auto key, auto last) {
      bool any = false;
      for (auto i = begin; i < end; ++i) {
        for (auto j = key; j < last && !any; ++j) any = sees(i, j);
      }
      return any;
    });
    EXPECT_EQ(plan.tiles, plan_of(3, q_len, k_len, {.threads = 1}).tiles);
    EXPECT_EQ(plan.tiles - plan.skipped_tiles, 3 * seen);
    return plan;
  };
  const AttentionPlan causal = expect_seen(480, 960, Mask::causal(), [](auto i, auto j) { return j <= i; });
  EXPECT_LT(causal.operations, 0.6 * 2 * 3 * 480 * 960 * (64 + 32));
  const Tensor counts = Tensor::of<std::int32_t>({1}, {301});
  expect_seen(480, 960, Mask::prefix(counts), [](auto i, auto j) { return j < 301 || j <= i; });
  for (const std::int64_t step : {1, 7, 70, 450, 5000}) {
    SCOPED_TRACE(step);
    expect_seen(801, 401, Mask::dilated(-1, -1, step), [&](auto i, auto j) { return (i - j) % step == 0; });
    expect_seen(801, 401, Mask::dilated(-1, -1, step, Align::bottom_right),
                [&](auto i, auto j) { return (i - 400 - j) % step == 0; });
  }
}

// A tile is skipped where no query of its block sees a key of it, by what the mask's bytes say, head by head.
TEST_P(AttentionPlans, CountsWhatBooleansHide) {
  Random random(2);
  Tensor first = testing::coin_flips(random, {1, 2, 210, 330}, 0.3), second = testing::coin_flips(random, {330}, 0.9);
  testing::repeat_in_squares(first, 32);  // no block of bytes that is asked, 16 queries and 8 keys, is of both kinds
  const AttentionOptions options{.mask = Mask::boolean(first) & Mask::boolean(second) & Mask::causal(), .threads = 1};
  const AttentionPlan plan = plan_of(2, 210, 330, options);
  std::int64_t computed = 0, pairs = 0;
  for (std::int64_t h = 0; h < 2; ++h) {
    computed += count_tiles(plan, 210, 330, [&](auto begin, auto end, auto key, auto last) {
      bool seen = false;
      for (std::int64_t i = begin; i < end; ++i) seen = seen || first.view().at<bool>({0, h, i, key});
      seen = seen && key < end;  // not later than the last query
      pairs += seen ? (end - begin) * (last - key) : 0;
      return seen;
    });
  }
  EXPECT_EQ(plan.skipped_tiles, plan.tiles - computed);
  EXPECT_EQ(plan.tiles, 2 * count_tiles(plan, 210, 330, [](auto...) { return true; }));
  EXPECT_EQ(plan.operations, 2.0 * static_cast<double>(pairs * (64 + 32)));
}

TEST_P(AttentionPlans, Decode) {
  const AttentionPlan all = plan_of(2, 1, 5000, {.threads = 16});
  EXPECT_EQ(all.kernel, "decode");
  EXPECT_EQ(all.tiles, 2 * 5);
  EXPECT_EQ(all.threads, 10);  // five chunks of two heads
  EXPECT_TRUE(has_remark(all, "there is work for 10 of 16 threads"));
  const AttentionPlan window = plan_of(2, 1, 5000, {.mask = Mask::window(1000, 0, Align::bottom_right), .threads = 1});
  EXPECT_EQ(window.skipped_tiles, 2 * 3);  // keys 3999 to 4999 lie in chunks 3 and 4
  EXPECT_EQ(window.operations, 2.0 * 2 * 1001 * (64 + 32));
  EXPECT_EQ(plan_of(2, 0, 5000, {}).kernel, "none");
}

// Blocks of 24 queries, vectors of 8, tiles of 4 keys: 29 queries make blocks of 16 and 13, which see 4 and 8 tiles.
TEST(AttentionPlan, LastBlockOfFewQueriesTakesSomeOfTheOneBefore) {
  if (!testing::has_target("avx2")) GTEST_SKIP() << "no AVX2 here";
  select_target("avx2");
  const AttentionPlan few = plan_of(3, 29, 29, {.mask = Mask::causal(), .threads = 1});
  EXPECT_EQ(few.tiles, 3 * 2 * 8);
  EXPECT_EQ(few.skipped_tiles, 3 * 4);
  const AttentionPlan more = plan_of(3, 33, 33, {.mask = Mask::causal(), .threads = 1});  // 24 and 9: 6 and 9 tiles
  EXPECT_EQ(more.skipped_tiles, 3 * 3);
  select_target("");
}

// By hand: gradients take three products over head_dim and two over value_dim, tangents of all three arrays as many;
// the gradients of these one and two, two and four more.
TEST_P(AttentionPlans, EveryPass) {
  const auto rows = [](std::int64_t size) { return MutableTensorView(nullptr, Dtype::f32, {3, 480, size}); };
  const MutableTensorView q = rows(64), v = rows(32), numbers(nullptr, Dtype::f32, {3, 480});
  const AttentionTangents tangents{.query = q, .key = q, .value = v};
  const AttentionOptions options{.threads = 1};
  const double pairs = 3.0 * 480 * 480, array = 4.0 * 3 * 480;
  const AttentionPlan forward = plan(q, q, v, options);
  const AttentionPlan backward = plan_backward(q, q, v, options, {.query = q, .key = q, .value = v});
  EXPECT_EQ(backward.kernel, "backward");
  EXPECT_EQ(backward.target, GetParam());
  EXPECT_EQ(backward.tiles, forward.tiles);
  EXPECT_EQ(backward.operations, 2 * pairs * (3 * 64 + 2 * 32));
  EXPECT_EQ(backward.bytes, array * (64 + 64 + 32 + 32 + 32 + 1 + 64 + 64 + 32));
  const AttentionPlan jvp = plan_jvp(q, q, v, tangents, options, {.out = v, .log_sum_exp = numbers});
  EXPECT_EQ(jvp.kernel, "tangents");
  EXPECT_EQ(jvp.operations, 2 * pairs * (3 * 64 + 2 * 32));
  EXPECT_EQ(jvp.bytes, array * (2 * (64 + 64 + 32) + 32 + 1 + 32 + 1));
  EXPECT_EQ(plan_jvp(q, q, v, {.query = q}, options, {}).operations, 2 * pairs * (2 * 64 + 32));
  const AttentionPlan twice =
      plan_double_backward(q, q, v, tangents, options, {.query = q, .key = q, .value = v, .grad_out = v});
  EXPECT_EQ(twice.kernel, "double backward");
  EXPECT_EQ(twice.tiles, 2 * forward.tiles);
  EXPECT_EQ(twice.operations, 2 * pairs * ((3 + 7) * 64 + (2 + 3) * 32));
  EXPECT_GE(twice.workspace, std::max(backward.workspace, jvp.workspace));
  const AttentionPlan causal = plan_backward(q, q, v, {.mask = Mask::causal(), .threads = 1}, {.query = q});
  EXPECT_EQ(causal.skipped_tiles, plan(q, q, v, {.mask = Mask::causal(), .threads = 1}).skipped_tiles);
  EXPECT_EQ(plan_backward(q, q.slice(1, 0, 0), v.slice(1, 0, 0), options, {}).kernel, "none");
  EXPECT_THROW(plan_backward(q, q, v, {.threads = -1}, {}), std::invalid_argument);
  EXPECT_THROW(plan_jvp(q, q, v, tangents, {.soft_cap = 1}, {}), std::invalid_argument);
  EXPECT_THROW(plan_double_backward(q, q, v, tangents, {.soft_cap = 1}, {}), std::invalid_argument);
}

TEST_P(AttentionPlans, MemoryLimitLeavesFewerThreadsAndTheSameBits) {
  Random random(1);
  const Tensor q = normal(random, {1, 8, 200, 64}), k = normal(random, {1, 8, 300, 64});
  const AttentionPlan free = plan(q, k, k, {.threads = 4});
  ASSERT_EQ(free.threads, 4);
  const std::int64_t limit = free.workspace / 2 + 16;  // a list of sequences is there once
  const AttentionOptions limited{.threads = 4, .memory_limit = limit};
  const AttentionPlan kept = plan(q, k, k, limited);
  EXPECT_EQ(kept.threads, 2);
  EXPECT_LE(kept.workspace, limit);
  EXPECT_TRUE(has_remark(kept, "memory_limit allows 2 of 4 threads"));
  EXPECT_TRUE(testing::same_bits(attention(q, k, k, limited), attention(q, k, k)));
  const AttentionOptions tight{.threads = 4, .memory_limit = 1000};
  for (const std::string& message : {test::message_of<std::invalid_argument>([&] { attention(q, k, k, tight); }),
                                     test::message_of<std::invalid_argument>([&] { plan(q, k, k, tight); })}) {
    EXPECT_NE(message.find("bytes besides inputs and outputs, memory_limit is 1000"), std::string::npos) << message;
  }
  EXPECT_THROW(attention(q, k, k, {.memory_limit = -1}), std::invalid_argument);
}

constexpr std::int64_t kMebibyte = 1 << 20;

// A megabyte a thread is enough for rows that are converted and kept whatever their size, and for rows of f32 that lie
// apart, which many blocks of queries read together.
TEST_P(AttentionPlans, WorkspaceOfRowsThatAreKept) {
  for (const std::int64_t size : {1, 64, 80, 128, 256, 500, 512, 768, 1024}) {
    for (const std::int64_t k_len : {1, 128, 1000, 32768}) {
      SCOPED_TRACE(fmt::format("{} x {}", k_len, size));
      const auto expect_enough = [&](Dtype dtype, Precision precision, const Dims& strides) {
        const TensorView rows(nullptr, dtype, {64, k_len, size}, strides), queries(nullptr, dtype, {64, 4096, size});
        const AttentionOptions options{.precision = precision, .threads = 1};
        EXPECT_LE(plan(queries, rows, rows, options).workspace, kMebibyte) << name_of(dtype);
      };
      const Dims together{k_len * size, size, 1}, apart{size, 3 * 64 * size, 1};
      expect_enough(Dtype::bf16, Precision::exact, together);
      expect_enough(Dtype::f16, Precision::exact, together);
      expect_enough(Dtype::f32, Precision::reduced, together);
      expect_enough(Dtype::bf16, Precision::reduced, together);
      expect_enough(Dtype::f32, Precision::exact, apart);
    }
  }
}

// The bounds of docs/semantics.md, which no length, mask or number of threads changes.
TEST_P(AttentionPlans, EveryPassIsBounded) {
  const Tensor w = testing::filled({1024, 1024}, 0), factor = testing::filled({1024}, 0);
  const Tensor joined = testing::filled({1024, 2048}, 0), lengths = Tensor::of<std::int32_t>({1}, {300});
  const Tensor shaw = testing::filled({2 * RelativeTable::kMostShawDistance + 1, 1024}, 0);
  const Mask masks[] = {Mask(), Mask::lengths(lengths), Mask::causal() & Mask::window(500, 0)};
  std::size_t drawn = 0;
  const auto expect_bounded = [&](Dtype dtype, std::int64_t head_dim, std::int64_t value_dim, std::int64_t q_len,
                                  int threads) {
    const Mask& mask = masks[drawn++ % std::size(masks)];
    SCOPED_TRACE(fmt::format("{}, {}, {}, {} queries, {} threads, mask {}", name_of(dtype), head_dim, value_dim, q_len,
                             threads, drawn % std::size(masks)));
    const auto rows = [&](std::int64_t heads, std::int64_t length, std::int64_t size) {
      return MutableTensorView(nullptr, dtype, {heads, length, size});
    };
    const MutableTensorView q = rows(8, q_len, head_dim), out = rows(8, q_len, value_dim);
    const MutableTensorView k = rows(2, 1 << 20, head_dim), v = rows(2, 1 << 20, value_dim);
    const AttentionTangents tangents{.query = q, .key = k, .value = v};
    AttentionOptions options{.mask = mask, .threads = threads};
    const std::int64_t sum = dtype == Dtype::f32 ? 6144 : 12288, each = 8 * q_len * std::int64_t(size_of(dtype));
    const std::int64_t of_sums = threads * (kMebibyte / 2 + sum * (head_dim + value_dim)) + 8 * 8 * q_len;
    const std::int64_t wide_query = dtype == Dtype::bf16 ? 4 * q.element_count() : 0;
    EXPECT_LE(plan_backward(q, k, v, options, {.query = q, .key = k, .value = v}).workspace, of_sums + wide_query);
    if (dtype != Dtype::bf16) {
      EXPECT_LE(plan_jvp(q, k, v, tangents, options, {.out = out}).workspace, threads * kMebibyte * 5 / 4);
      EXPECT_LE(plan_double_backward(q, k, v, tangents, options, {.query = q, .key = k, .value = v}).workspace,
                of_sums + 2 * each * (2 + value_dim));
    }
    const TensorView of_rows = w.view().slice(1, 0, head_dim), square = of_rows.slice(0, 0, head_dim);
    for (const Score& score :
         {Score::scaled_dot(), Score::additive(of_rows, of_rows, factor),
          Score::concat(joined.view().slice(1, 0, 2 * head_dim), factor), Score::bilinear(square)}) {
      if (dtype == Dtype::f64 && score.w_query()) continue;  // whose scores have parameters in f64
      options.score = score;
      EXPECT_LE(plan(q, k, v, options).workspace, threads * kMebibyte);
    }
    if (head_dim < 1024 || dtype == Dtype::f64) return;
    options = {.bias = Bias::shaw(shaw), .threads = threads};
    EXPECT_LE(plan(q, k, v, options).workspace, threads * kMebibyte + 4 * shaw.element_count());
  };
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    for (const auto& [head_dim, value_dim] :
         {std::pair(16, 16), {64, 64}, {80, 80}, {128, 128}, {600, 600}, {1, 1024}, {1024, 1}, {1024, 1024}}) {
      for (const std::int64_t q_len : {1, 2, 48, 200, 8192}) {
        for (const int threads : {1, 3, 64}) expect_bounded(dtype, head_dim, value_dim, q_len, threads);
      }
    }
  }
  for (std::size_t of_each_mask = 0; of_each_mask < std::size(masks); ++of_each_mask) {
    expect_bounded(Dtype::f32, 64, 64, 1 << 20, 4);
  }
  for (const std::int64_t group : {1, 8, 64, 256}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const TensorView q(nullptr, dtype, {group, 1, 1024}), k(nullptr, dtype, {1, 300000, 1024});
      const std::int64_t of_heads = group * (dtype == Dtype::f64 ? 48 : 24) * 1024;
      for (const int threads : {1, 4}) {
        EXPECT_LE(plan(q, k, k, {.threads = threads}).workspace, threads * std::max(kMebibyte, of_heads)) << group;
      }
    }
  }
}

// All of AttentionOptions. What costs nothing, or next to nothing, needs no remark: scale, sinks (1.00 times the time),
// empty rows, packed rows, pages, and masks that are intervals of keys. threads and precision have remarks of their
// own.
[[maybe_unused]] void every_option(const AttentionOptions& options) {
  [[maybe_unused]] const auto& [mask, bias, scale, soft_cap, logit_function, score, precision, dropout, empty_rows,
                                sinks, offsets_query, offsets_key, block_table, threads, memory_limit, stop] = options;
}

QKV_ON_EACH_TARGET(AttentionRemarks);

constexpr std::int64_t kLength = 96, kSize = 16;

TEST_P(AttentionRemarks, SayWhyAnOptionIsSlower) {
  Random random(1);
  const Tensor q = normal(random, {2, kLength, kSize}), plane = normal(random, {kLength, kLength});
  const Tensor visible = testing::filled({kLength, kLength}, 1, Dtype::boolean), slopes = testing::filled({2}, 0.1);
  const Tensor buckets = normal(random, {32, 2}), numbers = normal(random, {33, 2});
  const Tensor rows = normal(random, {33, kSize}), places = normal(random, {23 * 15, 2});
  const Tensor w = normal(random, {8, kSize}), joined = normal(random, {8, 2 * kSize});
  const Tensor factor = normal(random, {8}), square = normal(random, {kSize, kSize});
  std::vector<std::int32_t> alternating, in_runs;
  for (std::int32_t i = 0; i < kLength; ++i) alternating.push_back(i % 2), in_runs.push_back(i / 32);
  const Tensor scattered = Tensor::of({kLength}, alternating), runs = Tensor::of({kLength}, in_runs);
  const Tensor lengths = Tensor::of<std::int32_t>({1}, {50});
  const auto same = logit_function([](auto x, const Pair&) { return x; });
  const auto all = mask_function([](const Pair&) { return true; });
  const struct {
    const char* remark;
    AttentionOptions options;
  } slower[] = {{"soft cap", {.soft_cap = 3}},
                {"a bias is read", {.bias = Bias::view(plane)}},
                {"ALiBi", {.bias = Bias::alibi(slopes)}},
                {"a table of relative positions", {.bias = Bias::t5(buckets)}},
                {"a table of relative positions", {.bias = Bias::clipped(numbers)}},
                {"Swin", {.bias = Bias::swin(places, 12, 8)}},
                {"Shaw's table", {.bias = Bias::shaw(rows)}},
                {"a logit function", {.logit_function = same}},
                {"a mask function", {.mask = Mask::function(all)}},
                {"a boolean mask", {.mask = Mask::boolean(visible)}},
                {"documents whose keys are scattered", {.mask = Mask::documents(scattered)}},
                {"dropout", {.dropout = {.p = 0.1, .seed = 1}}},
                {"no dedicated kernel", {.score = Score::additive(w, w, factor)}},
                {"no dedicated kernel", {.score = Score::concat(joined, factor)}},
                {"no dedicated kernel", {.score = Score::bilinear(square)}}};
  for (auto [remark, options] : slower) {
    SCOPED_TRACE(remark);
    options.threads = 1;
    EXPECT_TRUE(has_remark(plan(q, q, q, options), remark));
    EXPECT_FALSE(has_remark(plan(q, q, q, {.threads = 1}), remark));
    if (options.logit_function) continue;  // which has no backward pass
    EXPECT_TRUE(has_remark(plan_backward(q, q, q, options, {}), remark));
  }
  const std::size_t none = GetParam() == testing::usable_targets().front() ? 0 : 1;
  for (const Mask& mask : {Mask(), Mask::causal(), Mask::window(8, 8), Mask::lengths(lengths), Mask::documents(runs)}) {
    EXPECT_EQ(plan(q, q, q, {.mask = mask, .threads = 1}).remarks.size(), none);
  }
}

TEST_P(AttentionRemarks, SayWhatTypesAndFewQueriesCost) {
  const std::string target = GetParam(), exact = "exact product of queries and keys";
  const struct {
    std::int64_t queries;
    Dtype dtype;
    std::string remark;
    bool is_said;
  } rows[] = {{2, Dtype::f32, "2 queries do not fill a block", true},
              {90, Dtype::bf16, "bf16 is widened to f32", target != "amx"},
              {90, Dtype::f16, "f16 is widened to f32", target != "amx"},
              {90, Dtype::bf16, "bf16 is multiplied by tiles", target == "amx"},
              {90, Dtype::f16, "f16 is multiplied by tiles", target == "amx"},
              {1, Dtype::bf16, "by tiles", false},
              {1, Dtype::f16, "by tiles", false},
              {90, Dtype::bf16, exact, target == "avx512-bf16"},
              {1, Dtype::bf16, exact, target == "avx512-bf16"},
              {90, Dtype::f16, exact, false}};
  for (const auto& [queries, dtype, remark, is_said] : rows) {
    EXPECT_EQ(has_remark(plan_of(1, queries, 500, {.threads = 1}, dtype), remark), is_said) << queries << " " << remark;
  }
}

TEST_P(AttentionRemarks, SayWhatOutputsCost) {
  const Tensor q = testing::filled({2, kLength, kSize}, 1), chosen = Tensor::of<std::int64_t>({1, 3}, {0, 0, 5});
  Tensor plane = Tensor::zeros({2, kLength, kLength}), row = Tensor::zeros({2, kLength});
  Tensor keys = Tensor::zeros({2, kLength, 3}, Dtype::i64), weights = Tensor::zeros({2, kLength, 3});
  Tensor blocks = Tensor::zeros({2, 4, 4}), of_row = Tensor::zeros({1, kLength});
  const auto says = [&](const AttentionExtras& extras, const char* remark) {
    return has_remark(plan(q, q, q, {.threads = 1}, extras), remark);
  };
  for (const AttentionExtras& extras : std::initializer_list<AttentionExtras>{
           {.weights = plane}, {.logits = plane}, {.entropy = row}, {.received = row}, {.block_weights = blocks}}) {
    EXPECT_TRUE(says(extras, "need a second pass over the keys"));
  }
  EXPECT_TRUE(says({.rows = chosen, .row_weights = of_row}, "chosen rows are computed again"));
  EXPECT_FALSE(says({.log_sum_exp = row}, "second pass"));
  EXPECT_FALSE(says({.row_maximum = row}, "second pass"));
  EXPECT_FALSE(says({.top_keys = keys, .top_weights = weights}, "second pass"));
}

TEST_P(AttentionRemarks, SayWhyThreadsAreIdleInEveryPass) {
  const Tensor q = testing::filled({1, 2, 16}, 1);  // one block of any target
  const AttentionTangents tangents{.query = q};
  for (const AttentionPlan& plan :
       {qkv::plan(q, q, q, {.threads = 4}), plan_backward(q, q, q, {.threads = 4}, {}),
        plan_jvp(q, q, q, tangents, {.threads = 4}, {}), plan_double_backward(q, q, q, tangents, {.threads = 4}, {})}) {
    EXPECT_TRUE(has_remark(plan, fmt::format("there is work for {} of 4 threads", plan.threads))) << plan.kernel;
  }
}

}  // namespace
}  // namespace qkv
