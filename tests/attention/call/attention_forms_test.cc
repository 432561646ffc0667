// Forms of a call by hand, beside the relations of same_bits_test.cc: pages, dimensions before the heads, 16 bits, kept
// documents, and integers that change while a call runs.
#include "attention/attention_testing.h"

namespace qkv {
namespace {

using testing::filled;
using testing::normal;
using testing::same_bits;

QKV_ON_EACH_TARGET(AttentionForms);

// Weights of NaN are those of a sequence's own keys; beyond them lies another sequence, or nothing: 0.
TEST_P(AttentionForms, RowsOfNanOverPages) {
  const Tensor pages = filled({6, 16, 2, 8}, 1);
  const Tensor table = Tensor::of<std::int32_t>({2, 5}, {5, 0, 3, 2, 1, 4, -7, -7, -7, -7});
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {70, 3});
  for (const std::int64_t q_len : {1, 2, 60}) {
    const Tensor q = filled({2, 4, q_len, 8}, testing::kNan);
    const Tensor rows = Tensor::of<std::int64_t>({2, 3}, {0, 1, q_len - 1, 1, 2, q_len - 1});
    Tensor out = Tensor::zeros(q.shape()), weights = Tensor::zeros({2, 4, q_len, 70}), chosen = Tensor::zeros({2, 70});
    const AttentionOptions options{.mask = Mask::lengths(lengths), .block_table = table};
    attention(q, pages, pages, out, options, {.weights = weights});
    attention(q, pages, pages, out, options, {.rows = rows, .row_weights = chosen});
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t key = 0; key < 70; ++key) {
        const bool is_own = key < (b == 0 ? 70 : 3);
        for (const float weight :
             {weights.view().at<float>({b, 1, q_len - 1, key}), chosen.view().at<float>({b, key})}) {
          EXPECT_TRUE(is_own ? std::isnan(weight) : weight == 0) << q_len << ", " << b << ", " << key << ": " << weight;
        }
      }
    }
  }
}

// Without lengths all blocks are full.
TEST_P(AttentionForms, PagesWithoutLengths) {
  const Tensor pages = Tensor::of<float>({2, 2, 1, 1}, {1, 2, 3, 4}), q = Tensor::zeros({1, 1, 1, 1});
  const Tensor table = Tensor::of<std::int32_t>({1, 2}, {1, 1});
  EXPECT_EQ(attention(q, pages, pages, {.block_table = table}).data<float>()[0], 3.5f);
}

TEST_P(AttentionForms, LeadingDimensionsAreBatch) {
  Random random(4);
  const Tensor q = normal(random, {2, 4, 50, 8});
  const Tensor wanted = attention(q, q, q);
  for (const Dims& shape : {Dims{1, 2, 4, 50, 8}, Dims{2, 1, 1, 4, 50, 8}}) {
    const TensorView other = q.view().reshape(shape);
    const Tensor out = attention(other, other, other);
    EXPECT_EQ(out.shape(), shape);
    EXPECT_TRUE(same_bits(out.view().reshape(wanted.shape()), wanted));
  }
  const TensorView matrix = q.view().select(0, 1).select(0, 2);
  EXPECT_TRUE(same_bits(attention(matrix, matrix, matrix), wanted.view().select(0, 1).select(0, 2)));
  // Leading dimensions that no single stride can walk, and elements that repeat.
  const Tensor grid = normal(random, {3, 2, 4, 9, 8});
  const TensorView turned = grid.view().transpose(0, 1), repeated = turned.slice(3, 3, 4).broadcast_to(turned.shape());
  EXPECT_TRUE(same_bits(attention(turned, repeated, turned),
                        attention(Tensor::copy(turned), Tensor::copy(repeated), Tensor::copy(turned))));
}

// One key alone has weight 1: the output is its value, whatever that is.
TEST_P(AttentionForms, OneKeyOf16BitsGivesItsValueBack) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    constexpr std::int64_t kStep = 512;
    for (std::int64_t first = 0; first < 0x10000; first += kStep) {
      std::vector<std::uint16_t> patterns;
      for (std::int64_t i = 0; i < kStep; ++i) patterns.push_back(static_cast<std::uint16_t>(first + i));
      const Tensor bits = Tensor::of({1, kStep}, patterns);
      const TensorView v(bits.view().bytes(), dtype, {1, kStep});
      const Tensor one = filled({1, 4}, 1, dtype);
      Tensor out = Tensor::zeros({1, kStep}, dtype);
      attention(one, one, v, out);
      ASSERT_EQ(testing::difference(out, v), 0) << name_of(dtype) << " from pattern " << first;
    }
  }
}

// A compiled mask gives the bits of one that is not, in call after call, of whatever sizes fit its ids.
TEST_P(AttentionForms, DocumentsAreCompiledForCallsOfOtherSizesToo) {
  Random random(7);
  std::vector<std::int32_t> runs, scattered;
  for (int j = 0; j < 3 * 40; ++j) {
    runs.push_back(j / 25);
    scattered.push_back(static_cast<std::int32_t>(random.below(4)));
  }
  const Tensor one = Tensor::of<std::int32_t>({1}, {2}), column = Tensor::of<std::int32_t>({3, 1}, {0, 2, 9}),
               row = Tensor::of({40}, std::vector<std::int32_t>(runs.begin(), runs.begin() + 40)),
               rows = Tensor::of({3, 40}, scattered), packed = Tensor::of({120}, runs);
  const auto expect_same_calls = [&](const Mask& mask, const std::vector<Dims>& shapes, const TensorView& key_shape) {
    const Mask compiled = mask.compiled();
    for (int twice = 0; twice < 2; ++twice) {
      for (const Dims& shape : shapes) {
        const Tensor q = normal(random, shape);
        const TensorView k = key_shape ? key_shape : q.view();
        expect_same(testing::attend(q, k, k, {.mask = mask}), testing::attend(q, k, k, {.mask = compiled}));
      }
    }
  };
  expect_same_calls(Mask::documents(row), {{2, 40, 8}, {3, 2, 40, 8}, {2, 3, 2, 40, 8}, {3, 2, 2, 40, 8}}, {});
  expect_same_calls(Mask::documents(rows) & Mask::documents(row), {{3, 2, 40, 8}, {2, 3, 2, 40, 8}}, {});
  const Tensor keys = normal(random, {3, 1, 40, 8});
  expect_same_calls(Mask::documents(one, rows), {{3, 2, 1, 8}, {3, 2, 17, 8}, {3, 2, 40, 8}}, keys);
  expect_same_calls(Mask::documents(column, row), {{3, 2, 5, 8}, {3, 1, 1, 8}, {3, 2, 0, 8}}, keys);

  const Mask plain = Mask::documents(packed), compiled = plain.compiled();
  const Tensor tokens = normal(random, {120, 2, 8});
  for (const std::vector<std::int32_t>& ends : {std::vector{0, 30, 120}, {0, 60, 120}, {0, 0, 120}, {0, 30, 120}}) {
    const Tensor offsets = Tensor::of({3}, ends);
    const auto call = [&](const Mask& mask) {
      return attention(tokens, tokens, tokens, {.mask = mask, .offsets_query = offsets, .offsets_key = offsets});
    };
    EXPECT_TRUE(same_bits(call(plain), call(compiled)));
  }
  // What does not fit is refused after calls that did.
  const Mask fits = Mask::documents(rows).compiled();
  const Tensor q = normal(random, {3, 2, 40, 8}), turned = normal(random, {3, 2, 2, 40, 8});
  attention(q, q, q, {.mask = fits});
  EXPECT_THROW(attention(turned, turned, turned, {.mask = fits}), std::invalid_argument);
}

// The ids of a compiled mask are read once: those written afterwards are not seen.
TEST_P(AttentionForms, CompiledDocumentsAreNotReadAgain) {
  Random random(8);
  const Tensor old = Tensor::of<std::int64_t>({6}, {0, 0, 1, 1, 1, 2}), q = normal(random, {2, 6, 8});
  Tensor ids = old;
  const Mask compiled = Mask::documents(ids).compiled(), wider = compiled & Mask::causal();
  const Tensor before = attention(q, q, q, {.mask = compiled});
  ids.data<std::int64_t>()[5] = 1;
  EXPECT_TRUE(same_bits(attention(q, q, q, {.mask = compiled}), before));
  EXPECT_TRUE(same_bits(attention(q, q, q, {.mask = wider}),
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
  for (const Mask& mask :
       {compiled & plain, plain & compiled, compiled & compiled, compiled & Mask::boolean(visible)}) {
    EXPECT_FALSE(mask.is_compiled());
  }
  EXPECT_TRUE((compiled & Mask::boolean(visible)).compiled().is_compiled());
}

// What another thread writes into the integers of a call after these were checked changes nothing: here a function of
// the caller's does, as soon as the kernel asks.
TEST(ChangedArguments, AreNotReadAgain) {
  Random random(1);
  const Tensor q = normal(random, {2, 2, 3, 4}), k = normal(random, {2, 2, 5, 4}), pages = normal(random, {4, 2, 2, 4});
  const Tensor packed = normal(random, {5, 2, 4}), packed_k = normal(random, {7, 2, 4});
  Tensor table = Tensor::of<std::int32_t>({2, 2}, {3, 0, 2, 1}), lengths = Tensor::of<std::int64_t>({2}, {5, 2});
  Tensor of_queries = Tensor::of<std::int32_t>({3}, {0, 2, 5}), of_keys = Tensor::of<std::int32_t>({3}, {0, 3, 7});
  Tensor rows = Tensor::of<std::int64_t>({2, 3}, {1, 1, 2, 0, 1, 0});
  const auto attend_packed = [&](const LogitFunction& function) {
    return attention(packed, packed_k, packed_k,
                     {.logit_function = function, .offsets_query = of_queries, .offsets_key = of_keys, .threads = 1});
  };
  const std::pair<Tensor*, std::function<Tensor(const LogitFunction&)>> calls[] = {
      {&table,
       [&](const LogitFunction& function) {
         return attention(q, pages, pages, {.logit_function = function, .block_table = table, .threads = 1});
       }},
      {&of_queries, attend_packed},
      {&of_keys, attend_packed},
      {&lengths,
       [&](const LogitFunction& function) {
         return attention(q, k, k, {.mask = Mask::lengths(lengths), .logit_function = function, .threads = 1});
       }},
      {&rows, [&](const LogitFunction& function) {
         Tensor weights = Tensor::zeros({2, 5});
         attention(q, k, k, {.logit_function = function, .threads = 1}, {.rows = rows, .row_weights = weights});
         return weights;
       }}};
  for (const auto& [integers, attend] : calls) {
    const Tensor before = *integers;
    const Tensor expected = attend(logit_function([](auto logit, const Pair&) { return logit; }));
    const auto spoil = [place = integers->view()] {
      std::memset(place.bytes(), 0x7f, static_cast<std::size_t>(place.element_count()) * size_of(place.dtype()));
    };
    const Tensor got = attend(logit_function([spoil](auto logit, const Pair&) {
      spoil();
      return logit;
    }));
    EXPECT_TRUE(same_bits(got, expected)) << to_string(before.shape());
    *integers = before;
  }
}

}  // namespace
}  // namespace qkv
