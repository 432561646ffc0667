// Document masks: the same bits as the boolean mask that says the same, contiguous and scattered, padded and packed.
#include "attention/attention_testing.h"

namespace qkv {
namespace {

QKV_ON_EACH_TARGET(Documents);

Tensor same_document(const std::vector<std::int32_t>& query, const std::vector<std::int32_t>& key) {
  const auto q_len = static_cast<std::int64_t>(query.size()), k_len = static_cast<std::int64_t>(key.size());
  Tensor visible = Tensor::zeros({q_len, k_len}, Dtype::u8);
  for (std::int64_t i = 0; i < q_len; ++i) {
    for (std::int64_t j = 0; j < k_len; ++j) {
      visible.view().at<std::uint8_t>({i, j}) =
          query[static_cast<std::size_t>(i)] == key[static_cast<std::size_t>(j)] ? 1 : 0;
    }
  }
  return visible;
}

void expect_like_boolean(const std::vector<std::int32_t>& query, const std::vector<std::int32_t>& key, Dtype dtype) {
  const auto q_len = static_cast<std::int64_t>(query.size()), k_len = static_cast<std::int64_t>(key.size());
  Random random(3);
  const Tensor q = testing::normal(random, {2, 2, q_len, 16}, dtype),
               k = testing::normal(random, {2, 2, k_len, 16}, dtype);
  const Tensor query_ids = Tensor::of({q_len}, query), key_ids = convert(Tensor::of({k_len}, key), Dtype::i64);
  const Tensor visible = same_document(query, key);
  for (const Mask& more : {Mask(), Mask::causal(Align::bottom_right)}) {
    const testing::Outcome a = testing::attend(q, k, k, {.mask = more & Mask::documents(query_ids, key_ids)});
    const testing::Outcome b = testing::attend(q, k, k, {.mask = more & Mask::boolean(visible)});
    EXPECT_TRUE(testing::same_bits(a.out, b.out));
    EXPECT_TRUE(testing::same_bits(a.log_sum_exp, b.log_sum_exp));
    EXPECT_TRUE(testing::same_bits(a.weights, b.weights));
    EXPECT_TRUE(testing::same_bits(a.logits, b.logits));
  }
}

TEST_P(Documents, AreTheBooleanMaskOfEqualIds) {
  Random random(1);
  std::vector<std::int32_t> contiguous, scattered, alternating;
  for (int j = 0; j < 1300; ++j) {
    contiguous.push_back(j < 300 ? 7 : j < 310 ? -2 : j < 1200 ? 5 : 1'000'000);
    scattered.push_back(static_cast<std::int32_t>(random.below(3)));
    alternating.push_back(j / 200 % 2);
  }
  const std::vector<std::int32_t> queries = {5, 5, 7, 7, 9, -2, 1'000'000, 5};
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) expect_like_boolean(queries, contiguous, dtype);
  expect_like_boolean({0, 1, 2, 3, 2, 1, 0}, scattered, Dtype::f32);
  expect_like_boolean({0, 0, 0, 1}, alternating, Dtype::f64);
  expect_like_boolean(std::vector<std::int32_t>(60, 1), alternating, Dtype::f32);
  const std::vector<std::int32_t> short_ids(contiguous.begin() + 250, contiguous.begin() + 400);
  expect_like_boolean(short_ids, short_ids, Dtype::f32);
}

// One query is decoded; a boolean mask and a document see the same keys there too.
TEST_P(Documents, OfOneQuery) {
  Random random(2);
  std::vector<std::int32_t> scattered, contiguous;
  for (int j = 0; j < 2100; ++j) {
    scattered.push_back(static_cast<std::int32_t>(random.below(2)));
    contiguous.push_back(j / 1000);
  }
  const Tensor q = testing::normal(random, {2, 1, 16}), k = testing::normal(random, {2, 2100, 16});
  for (const std::vector<std::int32_t>& ids : {scattered, contiguous}) {
    const Tensor query_ids = Tensor::of<std::int32_t>({1}, {1}), key_ids = Tensor::of({2100}, ids);
    const testing::Outcome a = testing::attend(q, k, k, {.mask = Mask::documents(query_ids, key_ids)});
    const testing::Outcome b = testing::attend(q, k, k, {.mask = Mask::boolean(same_document({1}, ids))});
    EXPECT_LE(testing::difference(a.out, b.out), 1e-6);
    EXPECT_LE(testing::difference(a.weights, b.weights), 1e-6);
    EXPECT_EQ(testing::difference(a.logits, b.logits), 0);
  }
}

// What other documents hold, NaN included, leaves no trace.
TEST_P(Documents, OthersDoNotLeak) {
  Random random(4);
  for (const std::int64_t q_len : {1, 9}) {
    for (const bool scattered : {false, true}) {
      std::vector<std::int32_t> ids;
      Tensor k = testing::normal(random, {1, 400, 8});
      for (std::int64_t j = 0; j < 400; ++j)
        ids.push_back(scattered ? static_cast<int>(j % 3) : static_cast<int>(j / 150));
      const Tensor key_ids = Tensor::of({400}, ids),
                   query_ids = Tensor::of({q_len}, std::vector<std::int32_t>(static_cast<std::size_t>(q_len), 1));
      const Tensor q = testing::normal(random, {1, q_len, 8});
      const AttentionOptions options{.mask = Mask::documents(query_ids, key_ids)};
      const Tensor clean = attention(q, k, k, options);
      for (std::int64_t j = 0; j < 400; ++j) {
        if (ids[static_cast<std::size_t>(j)] != 1) k.view().at<float>({0, j, 3}) = static_cast<float>(testing::kNan);
      }
      EXPECT_TRUE(testing::same_bits(attention(q, k, k, options), clean)) << q_len << scattered;
    }
  }
}

TEST_P(Documents, OfPackedSequencesAndOfABatch) {
  Random random(5);
  const Tensor q = testing::normal(random, {90, 2, 8});
  const Tensor offsets = Tensor::of<std::int32_t>({3}, {0, 40, 90});
  std::vector<std::int32_t> ids;
  for (int j = 0; j < 90; ++j) ids.push_back(j / 25);
  const Tensor packed_ids = Tensor::of({90}, ids);
  const Tensor packed =
      attention(q, q, q, {.mask = Mask::documents(packed_ids), .offsets_query = offsets, .offsets_key = offsets});
  for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{0, 40}, {40, 90}}) {
    const TensorView rows = q.view().slice(0, first, last).transpose(0, 1);
    const Tensor alone =
        attention(rows, rows, rows, {.mask = Mask::documents(packed_ids.view().slice(0, first, last))});
    EXPECT_TRUE(testing::same_bits(packed.view().slice(0, first, last).transpose(0, 1), alone));
  }
  // Ids of one row serve every sequence of a batch.
  const Tensor batch = testing::normal(random, {3, 2, 30, 8});
  const Tensor one = Tensor::of({30}, std::vector<std::int32_t>(ids.begin(), ids.begin() + 30));
  Tensor each = Tensor::uninitialized({3, 30}, Dtype::i32);
  convert(one.view().broadcast_to({3, 30}), each);
  EXPECT_TRUE(testing::same_bits(attention(batch, batch, batch, {.mask = Mask::documents(one)}),
                                 attention(batch, batch, batch, {.mask = Mask::documents(each)})));
}

// A compiled mask gives the bits of one that is not, in call after call, of whatever sizes fit its ids.
TEST_P(Documents, AreCompiledOnceForCallsOfOtherSizesToo) {
  Random random(7);
  std::vector<std::int32_t> runs, scattered;
  for (int j = 0; j < 3 * 40; ++j) {
    runs.push_back(j / 25);
    scattered.push_back(static_cast<std::int32_t>(random.below(4)));
  }
  const Tensor one = Tensor::of<std::int32_t>({1}, {2}),
               row = Tensor::of({40}, std::vector<std::int32_t>(runs.begin(), runs.begin() + 40)),
               rows = Tensor::of({3, 40}, scattered), column = Tensor::of<std::int32_t>({3, 1}, {0, 2, 9}),
               packed = Tensor::of({120}, runs);
  const auto expect_same_calls = [&](const Mask& mask, const std::vector<Dims>& shapes, const TensorView& key_shape) {
    const Mask compiled = mask.compiled();
    for (int twice = 0; twice < 2; ++twice) {
      for (const Dims& shape : shapes) {
        const Tensor q = testing::normal(random, shape);
        const TensorView k = key_shape ? key_shape : q.view();
        expect_same(testing::attend(q, k, k, {.mask = mask}), testing::attend(q, k, k, {.mask = compiled}));
      }
    }
  };
  expect_same_calls(Mask::documents(row), {{2, 40, 8}, {3, 2, 40, 8}, {2, 3, 2, 40, 8}, {3, 2, 2, 40, 8}}, {});
  expect_same_calls(Mask::documents(rows), {{3, 2, 40, 8}, {1, 3, 2, 40, 8}, {2, 3, 2, 40, 8}}, {});
  expect_same_calls(Mask::documents(rows) & Mask::documents(row), {{3, 2, 40, 8}, {2, 3, 2, 40, 8}}, {});
  const Tensor keys = testing::normal(random, {3, 1, 40, 8});
  expect_same_calls(Mask::documents(one, rows), {{3, 2, 1, 8}, {3, 2, 17, 8}, {3, 2, 40, 8}}, keys);
  expect_same_calls(Mask::documents(column, row), {{3, 2, 5, 8}, {3, 1, 1, 8}, {3, 2, 0, 8}}, keys);

  const Mask plain = Mask::documents(packed), compiled = plain.compiled();
  const Tensor tokens = testing::normal(random, {120, 2, 8});
  for (const std::vector<std::int32_t>& ends : {std::vector{0, 30, 120}, {0, 60, 120}, {0, 0, 120}, {0, 30, 120}}) {
    const Tensor offsets = Tensor::of({3}, ends);
    const auto call = [&](const Mask& mask) {
      return attention(tokens, tokens, tokens, {.mask = mask, .offsets_query = offsets, .offsets_key = offsets});
    };
    EXPECT_TRUE(testing::same_bits(call(plain), call(compiled)));
  }
  // What does not fit is refused after calls that did.
  const Mask fits = Mask::documents(rows).compiled();
  const Tensor q = testing::normal(random, {3, 2, 40, 8}), turned = testing::normal(random, {3, 2, 2, 40, 8});
  attention(q, q, q, {.mask = fits});
  EXPECT_THROW(attention(turned, turned, turned, {.mask = fits}), std::invalid_argument);
}

// The ids are read once: those written afterwards are not seen.
TEST_P(Documents, OfACompiledMaskAreNotReadAgain) {
  Random random(8);
  Tensor ids = Tensor::of<std::int64_t>({6}, {0, 0, 1, 1, 1, 2});
  const Tensor q = testing::normal(random, {2, 6, 8});
  const Mask compiled = Mask::documents(ids).compiled(), wider = compiled & Mask::causal();
  const Tensor before = attention(q, q, q, {.mask = compiled});
  ids.data<std::int64_t>()[5] = 1;
  EXPECT_TRUE(testing::same_bits(attention(q, q, q, {.mask = compiled}), before));
  const Tensor old = Tensor::of<std::int64_t>({6}, {0, 0, 1, 1, 1, 2});
  EXPECT_TRUE(testing::same_bits(attention(q, q, q, {.mask = wider}),
                                 attention(q, q, q, {.mask = Mask::documents(old) & Mask::causal()})));
}

TEST(CompiledDocuments, BelongToAllDocumentsOfTheMask) {
  const Tensor ids = Tensor::zeros({8}, Dtype::i64), visible = Tensor::zeros({8, 8}, Dtype::boolean);
  const Mask plain = Mask::documents(ids), compiled = plain.compiled();
  EXPECT_FALSE(plain.is_compiled());
  EXPECT_TRUE(compiled.is_compiled());
  EXPECT_EQ(compiled.compiled().kept_documents(), compiled.kept_documents());
  EXPECT_EQ((Mask::causal() & compiled).kept_documents(), compiled.kept_documents());
  EXPECT_EQ((compiled & Mask::causal()).kept_documents(), compiled.kept_documents());
  EXPECT_FALSE((compiled & plain).is_compiled());
  EXPECT_FALSE((plain & compiled).is_compiled());
  EXPECT_FALSE((compiled & compiled).is_compiled());
  EXPECT_FALSE((compiled & Mask::boolean(visible)).is_compiled());
  EXPECT_TRUE((compiled & Mask::boolean(visible)).compiled().is_compiled());
}

// Several document masks: all ids must be equal.
TEST_P(Documents, CombineByAnd) {
  Random random(6);
  std::vector<std::int32_t> a, b, both;
  for (int j = 0; j < 200; ++j) {
    a.push_back(j / 70);
    b.push_back(j % 2);
    both.push_back(a.back() * 2 + b.back());
  }
  const Tensor first = Tensor::of({200}, a), second = Tensor::of({200}, b), joined = Tensor::of({200}, both);
  const Tensor q = testing::normal(random, {2, 200, 8});
  EXPECT_TRUE(testing::same_bits(attention(q, q, q, {.mask = Mask::documents(first) & Mask::documents(second)}),
                                 attention(q, q, q, {.mask = Mask::documents(joined)})));
}

}  // namespace
}  // namespace qkv
