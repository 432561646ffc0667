// What plan() says against counts by hand, and against what a call allocates and does.
#include "qkv/attention/attention_plan.h"

#include <algorithm>

#include "attention/attention_testing.h"

namespace qkv {
namespace {

AttentionPlan plan_of(std::int64_t heads, std::int64_t q_len, std::int64_t k_len, const AttentionOptions& options,
                      Dtype dtype = Dtype::f32) {
  return plan({nullptr, dtype, {1, heads, q_len, 64}}, {nullptr, dtype, {1, heads, k_len, 64}},
              {nullptr, dtype, {1, heads, k_len, 32}}, options);
}

bool has_remark(const AttentionPlan& plan, const std::string& part) {
  return std::any_of(plan.remarks.begin(), plan.remarks.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
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

  // A block of queries sees the keys up to its last query; tiles are counted one by one.
  const AttentionPlan causal = plan_of(3, 480, 960, {.mask = Mask::causal(), .threads = 1});
  std::int64_t skipped = 0;
  for (std::int64_t begin = 0; begin < 480; begin += full.block_queries) {
    for (std::int64_t key = 0; key < 960; key += full.tile_keys) {
      skipped += key > std::min(begin + full.block_queries, std::int64_t{480}) - 1 ? 3 : 0;
    }
  }
  EXPECT_EQ(causal.tiles, full.tiles);
  EXPECT_EQ(causal.skipped_tiles, skipped);
  EXPECT_LT(causal.operations, 0.6 * full.operations);
  EXPECT_TRUE(full.remarks.empty() || GetParam() != testing::usable_targets().front());
}

// Tiles of keys of which a block's queries see one, pair by pair.
template <class Sees>
std::int64_t tiles_seen(const AttentionPlan& plan, std::int64_t q_len, std::int64_t k_len, const Sees& sees) {
  std::int64_t tiles = 0;
  for (std::int64_t begin = 0; begin < q_len; begin += plan.block_queries) {
    for (std::int64_t key = 0; key < k_len; key += plan.tile_keys) {
      bool any = false;
      for (std::int64_t i = begin; i < std::min(begin + plan.block_queries, q_len); ++i) {
        for (std::int64_t j = key; j < std::min(key + plan.tile_keys, k_len); ++j) any = any || sees(i, j);
      }
      tiles += any;
    }
  }
  return tiles;
}

TEST_P(AttentionPlans, CountsTilesThatPrefixesAndStepsHide) {
  const Tensor counts = Tensor::of<std::int32_t>({1}, {301});
  const AttentionPlan prefix = plan_of(3, 480, 960, {.mask = Mask::prefix(counts), .threads = 1});
  EXPECT_EQ(prefix.tiles - prefix.skipped_tiles,
            3 * tiles_seen(prefix, 480, 960, [](std::int64_t i, std::int64_t j) { return j < 301 || j <= i; }));
  EXPECT_GT(prefix.skipped_tiles, 0);
  for (const std::int64_t step : {1, 7, 70, 450, 5000}) {
    for (const Align align : {Align::top_left, Align::bottom_right}) {
      const std::int64_t offset = align == Align::top_left ? 0 : -400;
      const AttentionPlan dilated = plan_of(3, 801, 401, {.mask = Mask::dilated(-1, -1, step, align), .threads = 1});
      EXPECT_EQ(dilated.tiles - dilated.skipped_tiles,
                3 * tiles_seen(dilated, 801, 401,
                               [&](std::int64_t i, std::int64_t j) { return (i + offset - j) % step == 0; }))
          << "step " << step;
    }
  }
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

// A tile is skipped where no query of its block sees a key of it, by what the mask's bytes say, head by head.
TEST_P(AttentionPlans, CountsWhatBooleansHide) {
  Random random(2);
  Tensor first = testing::coin_flips(random, {1, 2, 210, 330}, 0.3), second = testing::coin_flips(random, {330}, 0.9);
  testing::repeat_in_squares(first, 32);
  const AttentionOptions options{.mask = Mask::boolean(first) & Mask::boolean(second) & Mask::causal(), .threads = 1};
  const AttentionPlan plan = plan_of(2, 210, 330, options);
  std::int64_t tiles = 0, computed = 0, pairs = 0;
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t begin = 0; begin < 210; begin += plan.block_queries) {
      const std::int64_t end = std::min(begin + plan.block_queries, std::int64_t{210});
      for (std::int64_t key = 0; key < 330; key += plan.tile_keys, ++tiles) {
        // Booleans are known for 16 queries and 8 keys at a time, from multiples of these.
        bool seen = false;
        const std::int64_t last = std::min<std::int64_t>(key / 8 * 8 + 8, 330);
        for (std::int64_t i = begin / 16 * 16; i < std::min<std::int64_t>((end + 15) / 16 * 16, 210); i += 16) {
          bool in_first = false, in_second = false;
          for (std::int64_t j = key / 8 * 8; j < last; ++j) {
            for (std::int64_t r = i; r < std::min<std::int64_t>(i + 16, 210); ++r) {
              in_first = in_first || first.view().at<bool>({0, h, r, j});
            }
            in_second = in_second || second.view().at<bool>({j});
          }
          seen = seen || (in_first && in_second);
        }
        if (!seen || key > end - 1) continue;  // or later than the last query
        ++computed;
        pairs += (end - begin) * std::min(plan.tile_keys, 330 - key);
      }
    }
  }
  EXPECT_EQ(plan.tiles, tiles);
  EXPECT_EQ(plan.skipped_tiles, tiles - computed);
  EXPECT_EQ(plan.operations, 2.0 * static_cast<double>(pairs * (64 + 32)));
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

// The last tile has two keys, whether it is computed or not.
TEST_P(AttentionPlans, CountsTheLastTileByItsKeys) {
  EXPECT_EQ(plan_of(1, 200, 330, {.threads = 1}).operations, 2.0 * 200 * 330 * (64 + 32));
  Tensor visible = testing::filled({200, 330}, 1, Dtype::u8);
  for (std::int64_t i = 0; i < 200; ++i) {
    for (std::int64_t j = 328; j < 330; ++j) visible.view().at<std::uint8_t>({i, j}) = 0;
  }
  const AttentionPlan hidden = plan_of(1, 200, 330, {.mask = Mask::boolean(visible), .threads = 1});
  EXPECT_EQ(hidden.skipped_tiles, (200 + hidden.block_queries - 1) / hidden.block_queries);
  EXPECT_EQ(hidden.operations, 2.0 * 200 * 328 * (64 + 32));
}

// 2^30 heads of 48 queries over 2^30 keys.
TEST_P(AttentionPlans, CountsMorePairsThanAnIntegerHolds) {
  constexpr std::int64_t kMany = std::int64_t{1} << 30;
  const TensorView q(nullptr, Dtype::f32, {kMany, 48, 1}), k(nullptr, Dtype::f32, {1, kMany, 1});
  EXPECT_EQ(plan(q, k, k, {.threads = 1}).operations, 2 * (1 + 1) * 48 * 0x1p60);
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

TEST_P(AttentionPlans, SaysWhy) {
  const Tensor visible = Tensor::zeros({500}, Dtype::boolean);
  EXPECT_TRUE(has_remark(plan_of(1, 2, 500, {.threads = 1}), "2 queries do not fill a block"));
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    const bool tiled = GetParam() == "amx";
    const AttentionPlan several = plan_of(1, 90, 500, {.threads = 1}, dtype);
    EXPECT_EQ(has_remark(several, std::string(name_of(dtype)) + " is widened to f32"), !tiled);
    EXPECT_EQ(has_remark(several, std::string(name_of(dtype)) + " is multiplied by tiles"), tiled);
    EXPECT_FALSE(has_remark(plan_of(1, 1, 500, {.threads = 1}, dtype), "by tiles"));
  }
  EXPECT_EQ(has_remark(plan_of(1, 90, 500, {.threads = 1}, Dtype::bf16), "exact product of queries and keys"),
            GetParam() == "avx512-bf16");
  EXPECT_EQ(has_remark(plan_of(1, 1, 500, {.threads = 1}, Dtype::bf16), "exact product of queries and keys"),
            GetParam() == "avx512-bf16");
  EXPECT_FALSE(has_remark(plan_of(1, 90, 500, {.threads = 1}, Dtype::f16), "exact product of queries and keys"));
  EXPECT_TRUE(has_remark(plan_of(1, 90, 500, {.soft_cap = 3, .threads = 1}), "soft cap"));
  EXPECT_TRUE(has_remark(plan_of(1, 90, 500, {.mask = Mask::boolean(visible), .threads = 1}), "boolean mask"));
  EXPECT_TRUE(has_remark(plan_of(1, 1, 500, {.threads = 4}), "there is work for 1 of 4 threads"));
}

TEST_P(AttentionPlans, MemoryLimitLeavesFewerThreadsAndTheSameBits) {
  Random random(1);
  const Tensor q = testing::normal(random, {1, 8, 200, 64}), k = testing::normal(random, {1, 8, 300, 64});
  const AttentionPlan free = plan(q, k, k, {.threads = 4});
  ASSERT_EQ(free.threads, 4);
  const AttentionOptions limited{.threads = 4, .memory_limit = free.workspace / 2};
  const AttentionPlan kept = plan(q, k, k, limited);
  EXPECT_EQ(kept.threads, 2);
  EXPECT_LE(kept.workspace, free.workspace / 2);
  EXPECT_TRUE(has_remark(kept, "memory_limit allows 2 of 4 threads"));
  EXPECT_TRUE(testing::same_bits(attention(q, k, k, limited), attention(q, k, k)));
  for (const bool run : {false, true}) {
    const AttentionOptions tight{.threads = 4, .memory_limit = 1000};
    try {
      run ? (void)attention(q, k, k, tight) : (void)plan(q, k, k, tight);
      ADD_FAILURE() << "1000 bytes were enough";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("bytes besides inputs and outputs, memory_limit is 1000"),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_THROW(attention(q, k, k, {.memory_limit = -1}), std::invalid_argument);
}

// A megabyte a thread is enough at any length, for keys that threads share too.
TEST_P(AttentionPlans, WorkspaceDoesNotGrowWithLength) {
  for (const std::int64_t q_len : {1, 4, 32768}) {
    for (const std::int64_t k_len : {32768, 1 << 24}) {
      for (const int threads : {1, 4}) {
        EXPECT_LE(plan_of(1, q_len, k_len, {.threads = threads}).workspace, std::int64_t{threads} << 20);
      }
    }
  }
}

// Nor is it more for rows that are converted and kept, whatever their size.
TEST_P(AttentionPlans, WorkspaceOfConvertedRows) {
  for (const auto& [dtype, precision] : {std::pair(Dtype::bf16, Precision::exact),
                                         {Dtype::f16, Precision::exact},
                                         {Dtype::f32, Precision::reduced},
                                         {Dtype::bf16, Precision::reduced}}) {
    for (const std::int64_t size : {1, 64, 80, 128, 256, 500, 512, 768, 1024}) {
      for (const std::int64_t k_len : {1, 128, 1000, 32768}) {
        AttentionOptions options{.threads = 1};
        options.precision = precision;
        const TensorView rows(nullptr, dtype, {64, k_len, size}), queries(nullptr, dtype, {64, 4096, size});
        EXPECT_LE(plan(queries, rows, rows, options).workspace, 1 << 20)
            << name_of(dtype) << ", " << size << ", " << k_len;
      }
    }
  }
}

// Nor for rows of f32 that lie apart, which many blocks of queries read together.
TEST_P(AttentionPlans, WorkspaceOfRowsThatLieApart) {
  for (const std::int64_t size : {1, 64, 80, 128, 256, 500, 512, 768, 1024}) {
    for (const std::int64_t k_len : {1, 128, 1000, 32768}) {
      const Dims strides{k_len * 3 * 64 * size, size, 3 * 64 * size, 1};
      const TensorView rows(nullptr, Dtype::f32, {2, 64, k_len, size}, strides);
      const TensorView queries(nullptr, Dtype::f32, {2, 64, 4096, size});
      EXPECT_LE(plan(queries, rows, rows, {.threads = 1}).workspace, 1 << 20) << size << ", " << k_len;
    }
  }
}

// The bounds of docs/semantics.md, which no length changes.
TEST_P(AttentionPlans, EveryPassIsBounded) {
  constexpr std::int64_t kMebibyte = 1 << 20;
  const Tensor w = testing::filled({1024, 1024}, 0), factor = testing::filled({1024}, 0);
  const Tensor shaw = testing::filled({2 * RelativeTable::kMostShawDistance + 1, 1024}, 0);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    for (const auto& [head_dim, value_dim] :
         {std::pair(16, 16), {64, 64}, {80, 80}, {128, 128}, {256, 256}, {1, 1024}, {1024, 1}, {1024, 1024}}) {
      SCOPED_TRACE(::testing::Message() << name_of(dtype) << ", " << head_dim << ", " << value_dim);
      const auto rows = [&](std::int64_t length, std::int64_t size) {
        return MutableTensorView(nullptr, dtype, {2, length, size});
      };
      const MutableTensorView q = rows(200, head_dim), k = rows(300000, head_dim), v = rows(300000, value_dim);
      const MutableTensorView out = rows(200, value_dim);
      const AttentionGradients gradients{.query = q, .key = k, .value = v};
      const AttentionTangents tangents{.query = q, .key = k, .value = v};
      const AttentionOptions options{.threads = 1};
      EXPECT_LE(plan(q, k, v, options).workspace, kMebibyte);
      const std::int64_t of_sums = kMebibyte / 2 + (dtype == Dtype::f32 ? 6144 : 12288) * (head_dim + value_dim);
      const std::int64_t wide_query = dtype == Dtype::bf16 ? 4 * q.element_count() : 0;
      EXPECT_LE(plan_backward(q, k, v, options, gradients).workspace, of_sums + wide_query);
      if (dtype != Dtype::bf16) {
        EXPECT_LE(plan_jvp(q, k, v, tangents, options, {.out = out}).workspace, kMebibyte * 5 / 4);
        const std::int64_t moved = 2 * 200 * static_cast<std::int64_t>(size_of(dtype)) * (2 + value_dim);
        EXPECT_LE(plan_double_backward(q, k, v, tangents, options, {.query = q, .key = k, .value = v}).workspace,
                  of_sums + moved);
      }
      if (dtype == Dtype::f64) continue;  // whose scores have parameters in f64
      EXPECT_LE(plan(q, k, v,
                     {.score = Score::additive(w.view().slice(1, 0, head_dim), w.view().slice(1, 0, head_dim), factor),
                      .threads = 1})
                    .workspace,
                kMebibyte);
      if (head_dim < 1024) continue;
      const std::int64_t table = 4 * shaw.element_count();
      EXPECT_LE(plan(q, k, v, {.bias = Bias::table(RelativeTable::shaw(shaw)), .threads = 1}).workspace,
                kMebibyte + table);
    }
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

}  // namespace
}  // namespace qkv
