// The cache against a model of it that copies everything: keys in one piece, and attention over them.
#include "qkv/attention/key_value_cache.h"

#include <algorithm>
#include <functional>

#include "attention/attention_testing.h"

namespace qkv {
namespace {

using testing::normal;

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kSize = 20, kValueSize = 12;

KeyValueCache cache_of(std::int64_t batch, Dtype dtype = Dtype::f32, std::int64_t page_rows = 16) {
  return KeyValueCache({.batch = batch,
                        .kv_heads = kKvHeads,
                        .head_dim = kSize,
                        .value_dim = kValueSize,
                        .dtype = dtype,
                        .page_rows = page_rows});
}

// Rows of a cache in one piece, [kv_heads, length, size].
Tensor gathered(const KeyValueCache& cache, const TensorView& pages, std::int64_t b) {
  Tensor rows = Tensor::zeros({pages.size(2), cache.length(b), pages.size(3)}, pages.dtype());
  for (std::int64_t j = 0; j < cache.length(b); ++j) {
    const std::int64_t page = cache.block_table().at<std::int32_t>({b, j / pages.size(1)});
    convert(pages.select(0, page).select(0, j % pages.size(1)), rows.view().select(1, j));
  }
  return rows;
}

Tensor attend(const KeyValueCache& cache, const TensorView& q, const AttentionOptions& options = {}) {
  Dims shape = q.shape();
  shape[shape.size() - 1] = kValueSize;
  Tensor out = Tensor::zeros(shape, q.dtype());
  attention(q, cache, out, options);
  return out;
}

QKV_ON_EACH_TARGET(KeyValueCaches);

// Prefill in chunks of at least two queries, each seeing what came before, equals the whole; so does what is cached.
TEST_P(KeyValueCaches, ChunksEqualTheWhole) {
  constexpr std::int64_t kLength = 1040;
  const Mask causal = Mask::causal(Align::bottom_right);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Random random(1);
    const Tensor q = normal(random, {2, kHeads, kLength, kSize}, dtype);
    const Tensor k = normal(random, {2, kKvHeads, kLength, kSize}, dtype);
    const Tensor v = normal(random, {2, kKvHeads, kLength, kValueSize}, dtype);
    const Tensor whole = attention(q, k, v, {.mask = Mask::causal()});
    for (const std::int64_t chunk : {50, 1038}) {
      KeyValueCache cache = cache_of(2, dtype);
      Tensor joined = Tensor::zeros(whole.shape(), dtype);
      for (std::int64_t begin = 0; begin < kLength; begin += chunk) {
        const auto part = [&](const auto& tensor) { return tensor.slice(2, begin, std::min(begin + chunk, kLength)); };
        cache.append(part(k.view()), part(v.view()));
        attention(part(q.view()), cache, part(joined.view()), {.mask = causal});
      }
      EXPECT_TRUE(testing::same_bits(joined, whole)) << chunk;
      EXPECT_TRUE(testing::same_bits(gathered(cache, cache.keys(), 1), k.view().select(0, 1)));
      EXPECT_TRUE(testing::same_bits(gathered(cache, cache.values(), 0), v.view().select(0, 0)));
    }
  }
}

// Rows are counted by 32 bits. None is read of what is refused.
TEST(KeyValueCacheLimits, RowsAreCountedBeforeTheyAreRead) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto nowhere = [](std::int64_t rows, std::int64_t size) {
    return TensorView(nullptr, Dtype::f32, {2, kKvHeads, rows, size}, {0, 0, 0, 1});
  };
  const auto expect_refusal = [](const auto& append) {
    try {
      append();
      ADD_FAILURE() << "was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("are too many"), std::string::npos) << error.what();
    }
  };
  KeyValueCache cache = cache_of(2);
  expect_refusal([&] { cache.append(nowhere(kMost + 1, kSize), nowhere(kMost + 1, kValueSize)); });
  const Tensor row = Tensor::zeros({3, kKvHeads, kSize}), value = Tensor::zeros({3, kKvHeads, kValueSize});
  cache.append(row, value, Tensor::of<std::int32_t>({3}, {0, 0, 3}));  // the second sequence has 3
  expect_refusal([&] { cache.append(nowhere(kMost - 2, kSize), nowhere(kMost - 2, kValueSize)); });
  const auto packed = [](std::int64_t rows, std::int64_t size) {
    return TensorView(nullptr, Dtype::f32, {rows, kKvHeads, size}, {0, 0, 1});
  };
  expect_refusal([&] {
    cache.append(packed(kMost - 2, kSize), packed(kMost - 2, kValueSize),
                 Tensor::of<std::int64_t>({3}, {0, 0, kMost - 2}));
  });
  EXPECT_EQ(cache.length(0), 0);
  EXPECT_EQ(cache.length(1), 3);
}

// One query at a time is decoding, the same as decoding over keys in one piece.
TEST_P(KeyValueCaches, TokenByToken) {
  Random random(2);
  KeyValueCache cache = cache_of(3);
  const Tensor q = normal(random, {3, kHeads, 40, kSize}), k = normal(random, {3, kKvHeads, 40, kSize});
  const Tensor v = normal(random, {3, kKvHeads, 40, kValueSize});
  for (std::int64_t i = 0; i < 40; ++i) {
    const auto token = [&](const Tensor& tensor) { return tensor.view().slice(2, i, i + 1); };
    cache.append(token(k), token(v));
    const Tensor out = attend(cache, token(q), {.mask = Mask::causal(Align::bottom_right)});
    EXPECT_TRUE(testing::same_bits(out, attention(token(q), k.view().slice(2, 0, i + 1), v.view().slice(2, 0, i + 1))))
        << i;
  }
}

// Prompts of different lengths, packed, then one token each.
TEST_P(KeyValueCaches, DifferentLengths) {
  Random random(3);
  const Tensor offsets = Tensor::of<std::int32_t>({4}, {0, 30, 30, 37});
  const std::int64_t rows[] = {0, 30, 30, 37};
  const Tensor q = normal(random, {37, kHeads, kSize}), k = normal(random, {37, kKvHeads, kSize});
  const Tensor v = normal(random, {37, kKvHeads, kValueSize});
  KeyValueCache cache = cache_of(3);
  cache.append(k, v, offsets);
  const Tensor prompt = attend(cache, q, {.mask = Mask::causal(Align::bottom_right), .offsets_query = offsets});
  const Tensor packed = attention(q, k, v, {.mask = Mask::causal(), .offsets_query = offsets, .offsets_key = offsets});
  EXPECT_TRUE(testing::same_bits(prompt, packed));

  const Tensor next_q = normal(random, {3, kHeads, 1, kSize}), next_k = normal(random, {3, kKvHeads, 1, kSize});
  const Tensor next_v = normal(random, {3, kKvHeads, 1, kValueSize});
  cache.append(next_k, next_v);
  const Tensor next = attend(cache, next_q);
  for (std::int64_t b = 0; b < 3; ++b) {
    EXPECT_EQ(cache.length(b), rows[b + 1] - rows[b] + 1);
    const Tensor alone =
        attention(next_q.view().select(0, b), gathered(cache, cache.keys(), b), gathered(cache, cache.values(), b));
    EXPECT_TRUE(testing::same_bits(next.view().select(0, b), alone)) << b;
  }
}

// Random steps of beam search against sequences that are copied whole.
TEST_P(KeyValueCaches, ReorderedSequences) {
  for (const std::int64_t page_rows : {1, 4, 16}) {
    Random random(4);
    KeyValueCache cache = cache_of(5, Dtype::f32, page_rows);
    std::vector<std::vector<std::vector<float>>> keys(5), values(5);  // [sequence][token][head and size]
    for (int step = 0; step < 60; ++step) {
      const auto batch = static_cast<std::int64_t>(keys.size());
      const Tensor k = normal(random, {batch, kKvHeads, 1, kSize}),
                   v = normal(random, {batch, kKvHeads, 1, kValueSize});
      cache.append(k, v);
      for (std::size_t b = 0; b < keys.size(); ++b) {
        const float* key = k.data<float>() + b * kKvHeads * kSize;
        const float* value = v.data<float>() + b * kKvHeads * kValueSize;
        keys[b].emplace_back(key, key + kKvHeads * kSize);
        values[b].emplace_back(value, value + kKvHeads * kValueSize);
      }
      std::vector<std::int64_t> parents(3 + random.below(4));
      for (std::int64_t& parent : parents) parent = static_cast<std::int64_t>(random.below(keys.size()));
      cache.reorder(parents);
      const auto old_keys = keys, old_values = values;
      keys.clear(), values.clear();
      for (const std::int64_t parent : parents) {
        keys.push_back(old_keys[static_cast<std::size_t>(parent)]);
        values.push_back(old_values[static_cast<std::size_t>(parent)]);
      }
    }
    ASSERT_EQ(cache.batch(), static_cast<std::int64_t>(keys.size()));
    for (std::int64_t b = 0; b < cache.batch(); ++b) {
      ASSERT_EQ(cache.length(b), 60);
      for (const auto& [pages, model, size] :
           {std::tuple(cache.keys(), keys, kSize), {cache.values(), values, kValueSize}}) {
        const Tensor rows = gathered(cache, pages, b);
        for (std::int64_t j = 0; j < 60; ++j) {
          for (std::int64_t head = 0; head < kKvHeads; ++head) {
            const float* row = rows.data<float>() + (head * 60 + j) * size;
            const auto& token = model[static_cast<std::size_t>(b)][static_cast<std::size_t>(j)];
            EXPECT_TRUE(std::equal(row, row + size, token.begin() + head * size)) << b << ", " << j;
          }
        }
      }
    }
    // Pages that nobody needs are used again: never more than each sequence could fill, doubled by growth.
    EXPECT_LE(cache.keys().size(0), 2 * 6 * (60 + page_rows - 1) / page_rows + 2);
  }
}

TEST(KeyValueCacheRows, AreStoredInTheCachesType) {
  KeyValueCache cache({.batch = 1, .kv_heads = 1, .head_dim = 2, .dtype = Dtype::bf16});
  const Tensor rows = Tensor::of<float>({1, 1, 1, 2}, {1.00390625f, -3});  // 1 + 2^-8 is a tie, rounded to even
  cache.append(rows, rows);
  EXPECT_EQ(testing::values(gathered(cache, cache.keys(), 0)), (std::vector<double>{1, -3}));
}

TEST(KeyValueCacheRows, AnEmptyCacheHasNoKeys) {
  KeyValueCache cache = cache_of(2);
  const Tensor out = attend(cache, testing::filled({2, kHeads, 3, kSize}, 1));
  EXPECT_EQ(testing::largest(out), 0);
  cache.reorder({});
  EXPECT_EQ(cache.batch(), 0);
}

TEST(KeyValueCacheRows, Refused) {
  KeyValueCache cache = cache_of(2);
  const auto refuse = [&](const std::string& message, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "not refused: " << message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  const Tensor k = testing::filled({2, kKvHeads, 3, kSize}, 1), v = testing::filled({2, kKvHeads, 3, kValueSize}, 1);
  const Tensor packed_k = testing::filled({3, kKvHeads, kSize}, 1),
               packed_v = testing::filled({3, kKvHeads, kValueSize}, 1);
  refuse("must be equally many rows of 2 heads, of sizes 20 and 12", [&] { cache.append(v, k); });
  refuse("must be equally many rows", [&] { cache.append(k, v.view().slice(2, 0, 2)); });
  refuse("must be equally many rows", [&] { cache.append(k.view().select(0, 0), v.view().select(0, 0)); });
  refuse("is not for a batch of 2", [&] { cache.append(k.view().slice(0, 0, 1), v.view().slice(0, 0, 1)); });
  refuse("floating type, got i32 and f32", [&] { cache.append(convert(k, Dtype::i32), v); });
  refuse("offsets [2] must be [3]", [&] { cache.append(packed_k, packed_v, Tensor::of<std::int32_t>({2}, {0, 3})); });
  refuse("end at the number of rows of key, 3",
         [&] { cache.append(packed_k, packed_v, Tensor::of<std::int32_t>({3}, {0, 3, 2})); });
  refuse("offsets must be i32 or i64, got f32", [&] { cache.append(packed_k, packed_v, testing::filled({3}, 0)); });
  refuse("there is no sequence 2 in a batch of 2", [&] { cache.reorder(std::vector<std::int64_t>{0, 2}); });
  refuse("must be 1 or more", [] { KeyValueCache({.batch = 1, .kv_heads = 0}); });
  refuse("type i32 must be", [] { KeyValueCache({.dtype = Dtype::i32}); });
  refuse("aligned top-left",
         [&] { attend(cache, testing::filled({2, kHeads, 3, kSize}, 1), {.mask = Mask::causal()}); });
  EXPECT_EQ(cache.length(0), 0);
}

}  // namespace
}  // namespace qkv
