// The cache against a model of it that copies everything: keys in one piece, and attention over them.
#include "qkv/attention/key_value_cache.h"

#include "attention/attention_testing.h"

namespace qkv {
namespace {

using testing::expect_refused;
using testing::normal;

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kSize = 20, kValueSize = 12;

KeyValueCache cache_of(std::int64_t batch, std::int64_t page_rows = 16) {
  return KeyValueCache(
      {.batch = batch, .kv_heads = kKvHeads, .head_dim = kSize, .value_dim = kValueSize, .page_rows = page_rows});
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

// Rows are counted by 32 bits. None is read of what is refused.
TEST(KeyValueCacheLimits, RowsAreCountedBeforeTheyAreRead) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto nowhere = [](std::int64_t rows, std::int64_t size) {
    return TensorView(nullptr, Dtype::f32, {2, kKvHeads, rows, size}, {0, 0, 0, 1});
  };
  const std::string message = "are too many";
  KeyValueCache cache = cache_of(2);
  expect_refused(message, [&] { cache.append(nowhere(kMost + 1, kSize), nowhere(kMost + 1, kValueSize)); });
  const Tensor row = Tensor::zeros({3, kKvHeads, kSize}), value = Tensor::zeros({3, kKvHeads, kValueSize});
  cache.append(row, value, Tensor::of<std::int32_t>({3}, {0, 0, 3}));  // the second sequence has 3
  expect_refused(message, [&] { cache.append(nowhere(kMost - 2, kSize), nowhere(kMost - 2, kValueSize)); });
  const auto packed = [](std::int64_t rows, std::int64_t size) {
    return TensorView(nullptr, Dtype::f32, {rows, kKvHeads, size}, {0, 0, 1});
  };
  expect_refused(message, [&] {
    cache.append(packed(kMost - 2, kSize), packed(kMost - 2, kValueSize),
                 Tensor::of<std::int64_t>({3}, {0, 0, kMost - 2}));
  });
  EXPECT_EQ(cache.length(0), 0);
  EXPECT_EQ(cache.length(1), 3);
}

// Random steps of beam search, of one token each or of up to three, against sequences that are copied whole.
TEST(KeyValueCaches, ReorderedSequences) {
  for (const std::int64_t page_rows : {1, 4, 16}) {
    Random random(4);
    KeyValueCache cache = cache_of(5, page_rows);
    std::vector<std::vector<std::pair<Tensor, Tensor>>> tokens(5);  // of each sequence: keys and values, [heads, size]
    for (int step = 0; step < 60; ++step) {
      const auto batch = static_cast<std::int64_t>(tokens.size());
      std::vector<std::int64_t> ends{0};
      for (std::int64_t b = 0; b < batch; ++b) {
        ends.push_back(ends.back() + (step % 2 == 0 ? 1 : static_cast<std::int64_t>(random.below(4))));
      }
      const Tensor k = normal(random, {ends.back(), kKvHeads, kSize});
      const Tensor v = normal(random, {ends.back(), kKvHeads, kValueSize});
      const auto padded = [&](const Tensor& rows) {
        return rows.view().reshape({batch, 1, kKvHeads, rows.size(2)}).transpose(1, 2);
      };
      if (step % 2 == 0) cache.append(padded(k), padded(v));
      if (step % 2 != 0) cache.append(k, v, Tensor::of({batch + 1}, ends));
      for (std::size_t b = 0; b < tokens.size(); ++b) {
        for (std::int64_t row = ends[b]; row < ends[b + 1]; ++row) {
          tokens[b].emplace_back(Tensor::copy(k.view().select(0, row)), Tensor::copy(v.view().select(0, row)));
        }
      }
      std::vector<std::int64_t> parents(3 + random.below(4)), lengths;
      for (std::int64_t& parent : parents) parent = static_cast<std::int64_t>(random.below(tokens.size()));
      for (const std::int64_t parent : parents) {
        lengths.push_back(std::ssize(tokens[static_cast<std::size_t>(parent)]));
        if (step % 3 == 0)
          lengths.back() -= static_cast<std::int64_t>(
              random.below(std::min<std::uint64_t>(6, static_cast<std::uint64_t>(lengths.back()) + 1)));
      }
      if (step % 12 == 6) {
        parents.push_back(-1);
        lengths.push_back(0);
      }
      step % 3 == 0 ? cache.reorder(parents, lengths) : cache.reorder(parents);
      const auto old = tokens;
      tokens.clear();
      for (std::size_t b = 0; b < parents.size(); ++b) {
        tokens.emplace_back();
        if (parents[b] < 0) continue;
        const auto& from = old[static_cast<std::size_t>(parents[b])];
        tokens.back().assign(from.begin(), from.begin() + lengths[b]);
      }
    }
    ASSERT_EQ(cache.batch(), static_cast<std::int64_t>(tokens.size()));
    std::int64_t longest = 0;
    for (std::int64_t b = 0; b < cache.batch(); ++b) {
      const auto& own = tokens[static_cast<std::size_t>(b)];
      ASSERT_EQ(cache.length(b), std::ssize(own));
      longest = std::max(longest, cache.length(b));
      const Tensor keys = gathered(cache, cache.keys(), b), values = gathered(cache, cache.values(), b);
      for (std::int64_t j = 0; j < cache.length(b); ++j) {
        const auto& [key, value] = own[static_cast<std::size_t>(j)];
        EXPECT_TRUE(testing::same_bits(keys.view().select(1, j), key)) << b << ", " << j;
        EXPECT_TRUE(testing::same_bits(values.view().select(1, j), value)) << b << ", " << j;
      }
    }
    // Pages that nobody needs are used again: never more than each sequence could fill, doubled by growth.
    EXPECT_LE(cache.keys().size(0), 2 * 7 * (longest + page_rows) / page_rows + 2);
  }
}

// Several tokens of a sequence, each a query by itself, beside one that is appended after the other.
TEST(KeyValueCacheRows, SingleQueriesAreThoseOfOneTokenAfterTheOther) {
  Random random(4);
  KeyValueCache whole = cache_of(3, 5);
  const std::vector<std::int64_t> before{0, 3, 10, 30}, ends{0, 4, 4, 10};
  const auto rows = [&](std::int64_t count, std::int64_t heads, std::int64_t size) {
    return normal(random, {count, heads, size});
  };
  whole.append(rows(30, kKvHeads, kSize), rows(30, kKvHeads, kValueSize), Tensor::of({4}, before));
  KeyValueCache grown = whole;
  const Tensor k = rows(10, kKvHeads, kSize), v = rows(10, kKvHeads, kValueSize), q = rows(10, kHeads, kSize);
  const Tensor offsets = Tensor::of({4}, ends);
  whole.append(k, v, offsets);
  for (const Mask& mask : {Mask::causal(Align::bottom_right), Mask::causal(Align::bottom_right) & Mask::window(2, 0)}) {
    KeyValueCache cache = grown;
    Tensor out = Tensor::zeros({10, kHeads, kValueSize}), wanted = Tensor::zeros({10, kHeads, kValueSize});
    attention_singly(q, whole, out, {.mask = mask, .offsets_query = offsets});
    for (std::size_t b = 0; b < 3; ++b) {
      for (std::int64_t row = ends[b]; row < ends[b + 1]; ++row) {
        std::vector<std::int64_t> one{0};
        for (std::size_t i = 0; i < 3; ++i) one.push_back(one.back() + (i == b ? 1 : 0));
        const auto of_row = [&](const Tensor& all) { return all.view().slice(0, row, row + 1); };
        cache.append(of_row(k), of_row(v), Tensor::of({4}, one));
        KeyValueCache alone = cache;
        alone.reorder(std::vector<std::int64_t>{static_cast<std::int64_t>(b)});
        Tensor single = Tensor::zeros({1, kHeads, 1, kValueSize});
        attention(of_row(q).reshape({1, kHeads, 1, kSize}), alone, single, {.mask = mask});
        convert(single.view().reshape({1, kHeads, kValueSize}), wanted.view().slice(0, row, row + 1));
      }
    }
    EXPECT_TRUE(testing::same_bits(out, wanted));
  }
}

// What a window cannot see any more is given back, and used again; what it sees stays.
TEST(KeyValueCacheRows, DroppedPagesAreUsedAgain) {
  Random random(5);
  KeyValueCache cache = cache_of(1, 4), whole = cache_of(1, 4);
  constexpr std::int64_t kWindow = 9;
  for (std::int64_t length = 1; length <= 200; ++length) {
    const Tensor k = normal(random, {1, kKvHeads, 1, kSize}), v = normal(random, {1, kKvHeads, 1, kValueSize});
    cache.append(k, v);
    whole.append(k, v);
    cache.drop_before(0, std::max<std::int64_t>(0, length - kWindow));
    EXPECT_LE(cache.first_kept(0), std::max<std::int64_t>(0, length - kWindow));
    const Tensor q = normal(random, {1, kHeads, 1, kSize});
    Tensor out = Tensor::zeros({1, kHeads, 1, kValueSize}), wanted = out;
    const AttentionOptions options{.mask = Mask::causal(Align::bottom_right) & Mask::window(kWindow - 1, 0)};
    attention(q, cache, out, options);
    attention(q, whole, wanted, options);
    ASSERT_TRUE(testing::same_bits(out, wanted)) << length;
    if (length % 50 == 0) cache.reorder(std::vector<std::int64_t>{0, 0});
    if (length % 50 == 0) cache.reorder(std::vector<std::int64_t>{1});
  }
  EXPECT_LE(cache.keys().size(0), 8);
  EXPECT_GE(whole.keys().size(0), 50);
}

TEST(KeyValueCacheRows, AreStoredInTheCachesType) {
  KeyValueCache cache({.batch = 1, .kv_heads = 1, .head_dim = 2, .dtype = Dtype::bf16});
  const Tensor rows = Tensor::of<float>({1, 1, 1, 2}, {1.00390625f, -3});  // 1 + 2^-8 is a tie, rounded to even
  cache.append(rows, rows);
  EXPECT_EQ(testing::values(gathered(cache, cache.keys(), 0)), (std::vector<double>{1, -3}));
}

TEST(KeyValueCacheRows, AnEmptyCacheHasNoKeys) {
  KeyValueCache cache = cache_of(2);
  Tensor out = testing::filled({2, kHeads, 3, kValueSize}, 7);
  attention(testing::filled({2, kHeads, 3, kSize}, 1), cache, out);
  EXPECT_EQ(testing::largest(out), 0);
  cache.reorder({});
  EXPECT_EQ(cache.batch(), 0);
}

TEST(KeyValueCacheRows, Refused) {
  KeyValueCache cache = cache_of(2);
  const Tensor k = testing::filled({2, kKvHeads, 3, kSize}, 1), v = testing::filled({2, kKvHeads, 3, kValueSize}, 1);
  const Tensor packed_k = testing::filled({3, kKvHeads, kSize}, 1),
               packed_v = testing::filled({3, kKvHeads, kValueSize}, 1);
  expect_refused("must be equally many rows of 2 heads, of sizes 20 and 12", [&] { cache.append(v, k); });
  expect_refused("must be equally many rows", [&] { cache.append(k, v.view().slice(2, 0, 2)); });
  expect_refused("must be equally many rows", [&] { cache.append(k.view().select(0, 0), v.view().select(0, 0)); });
  expect_refused("is not for a batch of 2", [&] { cache.append(k.view().slice(0, 0, 1), v.view().slice(0, 0, 1)); });
  expect_refused("floating type, got i32 and f32", [&] { cache.append(convert(k, Dtype::i32), v); });
  expect_refused("offsets [2] must be [3]",
                 [&] { cache.append(packed_k, packed_v, Tensor::of<std::int32_t>({2}, {0, 3})); });
  expect_refused("end at the number of rows of key, 3",
                 [&] { cache.append(packed_k, packed_v, Tensor::of<std::int32_t>({3}, {0, 3, 2})); });
  expect_refused("offsets must be i32 or i64, got f32",
                 [&] { cache.append(packed_k, packed_v, testing::filled({3}, 0)); });
  expect_refused("there is no sequence 2 in a batch of 2", [&] { cache.reorder(std::vector<std::int64_t>{0, 2}); });
  const std::vector<std::int64_t> both{0, 1};
  expect_refused("2 parents have 1 lengths", [&] { cache.reorder(both, std::vector<std::int64_t>{0}); });
  expect_refused("length 1 must be from 0 to the 0 tokens of sequence 1",
                 [&] { cache.reorder(both, std::vector<std::int64_t>{0, 1}); });
  expect_refused("there is no sequence -2", [&] { cache.reorder(std::vector<std::int64_t>{-2, 0}, both); });
  expect_refused("sequence 0 of 2 does not have 1 tokens to drop", [&] { cache.drop_before(0, 1); });
  expect_refused("must be 1 or more", [] { KeyValueCache({.batch = 1, .kv_heads = 0}); });
  expect_refused("type i32 must be", [] { KeyValueCache({.dtype = Dtype::i32}); });
  const Tensor q = testing::filled({2, kHeads, 3, kSize}, 1);
  Tensor out = Tensor::zeros({2, kHeads, 3, kValueSize});
  expect_refused("over a cache the queries are the last ones",
                 [&] { attention(q, cache, out, {.mask = Mask::causal(Align::top_left)}); });
  EXPECT_EQ(cache.length(0), 0);
}

}  // namespace
}  // namespace qkv
