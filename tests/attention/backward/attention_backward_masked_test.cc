// What a mask hides has gradients of exactly zero, and reaches no other gradient, whatever it holds.
#include <algorithm>

#include "attention/backward/attention_backward_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::backward;
using testing::expect_zeros;
using testing::Gradients;
using testing::kInfinity;
using testing::kNan;
using testing::normal;
using testing::put;

constexpr Dtype kFloating[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16};

struct Arrays {
  explicit Arrays(Dtype dtype) {
    Random random(1);
    q = normal(random, {2, 2, 30, 16}, dtype), k = normal(random, {2, 1, 140, 16}, dtype);
    v = normal(random, {2, 1, 140, 24}, dtype), grad_out = normal(random, {2, 2, 30, 24}, dtype);
  }
  Gradients gradients(const AttentionOptions& options) const { return backward(q, k, v, grad_out, options); }
  Tensor q, k, v, grad_out;
};

// Keys 0, 70 and 139 are hidden from everybody, keys 3 and 90 from half of the queries, query 11 sees nothing.
Tensor holes() {
  Tensor visible = testing::filled({30, 140}, 1, Dtype::u8);
  const auto at = [&](std::int64_t i, std::int64_t j) -> std::uint8_t& {
    return visible.view().at<std::uint8_t>({i, j});
  };
  for (std::int64_t i = 0; i < 30; ++i) {
    for (const std::int64_t j : {0, 70, 139}) at(i, j) = 0;
    if (i % 2 == 0) at(i, 3) = at(i, 90) = 0;
  }
  for (std::int64_t j = 0; j < 140; ++j) at(11, j) = 0;
  return visible;
}

QKV_ON_EACH_TARGET(AttentionBackwardMasked);

TEST_P(AttentionBackwardMasked, RowsWithoutKeysAndHiddenKeysHaveZeroGradients) {
  const Tensor visible = holes();
  for (const Dtype dtype : kFloating) {
    for (const double cap : {0.0, 2.0}) {
      const Gradients gradients = Arrays(dtype).gradients({.mask = Mask::boolean(visible), .soft_cap = cap});
      expect_zeros(gradients.query.view().select(2, 11));
      for (const std::int64_t j : {0, 70, 139}) {
        expect_zeros(gradients.key.view().select(2, j));
        expect_zeros(gradients.value.view().select(2, j));
      }
      for (const Tensor* all : {&gradients.query, &gradients.key, &gradients.value}) {
        for (const double value : testing::values(*all)) ASSERT_TRUE(std::isfinite(value));
        EXPECT_GT(testing::largest(*all), 0.01);
      }
    }
  }
}

TEST_P(AttentionBackwardMasked, HiddenKeysAndValuesNeverReachAGradient) {
  const Tensor visible = holes(), lengths = Tensor::of<std::int32_t>({2}, {139, 50});
  const Tensor slopes = Tensor::of<float>({2}, {0.1f, 0.3f});
  for (const Dtype dtype : kFloating) {
    const Arrays clean(dtype);
    for (const AttentionOptions& options :
         {AttentionOptions{}, AttentionOptions{.soft_cap = 2}, AttentionOptions{.bias = Bias::alibi(slopes)}}) {
      AttentionOptions masked = options;
      masked.mask = Mask::boolean(visible) & Mask::lengths(lengths);
      const Gradients wanted = clean.gradients(masked);
      for (const double poison : {kNan, kInfinity, -kInfinity}) {
        Arrays poisoned = clean;
        for (const std::int64_t j : {0, 70, 139}) {
          put(poisoned.k, {0, 0, j, 5}, poison);
          put(poisoned.v, {0, 0, j, 7}, poison);
        }
        put(poisoned.k, {1, 0, 51, 0}, poison);  // the same tile as keys that are seen
        put(poisoned.v, {1, 0, 51, 23}, poison);
        testing::expect_same(wanted, poisoned.gradients(masked));
      }
    }
  }
}

TEST_P(AttentionBackwardMasked, CausalHidesLaterKeys) {
  for (const Dtype dtype : kFloating) {
    Arrays arrays(dtype);
    const Mask mask = Mask::causal();  // 30 queries see keys 0 to 29
    const Gradients wanted = arrays.gradients({.mask = mask});
    expect_zeros(wanted.key.view().slice(2, 30, 140));
    expect_zeros(wanted.value.view().slice(2, 30, 140));
    put(arrays.k, {0, 0, 30, 1}, kNan);
    put(arrays.v, {1, 0, 31, 1}, kInfinity);
    testing::expect_same(wanted, arrays.gradients({.mask = mask}));
  }
}

// A row without keys takes no part, whatever its query and its grad_out hold.
TEST_P(AttentionBackwardMasked, RowsWithoutKeysTakeNoPart) {
  const Tensor visible = holes();
  for (const Dtype dtype : kFloating) {
    const Arrays clean(dtype);
    const AttentionOptions options{.mask = Mask::boolean(visible)};
    const Gradients wanted = clean.gradients(options);
    Arrays poisoned = clean;
    put(poisoned.q, {0, 1, 11, 3}, kNan);
    put(poisoned.grad_out, {1, 0, 11, 4}, kInfinity);
    testing::expect_same(wanted, poisoned.gradients(options));
  }
}

// NaN that a query does see reaches its gradient: also behind the guard that a masked tile with NaN takes.
TEST_P(AttentionBackwardMasked, VisibleNanStays) {
  const Tensor visible = holes();
  for (const Dtype dtype : kFloating) {
    Arrays arrays(dtype);
    SCOPED_TRACE(name_of(dtype));
    put(arrays.k, {0, 0, 3, 2}, kNan);  // seen by odd queries
    const Gradients gradients = arrays.gradients({.mask = Mask::boolean(visible)});
    for (std::int64_t i = 0; i < 30; ++i) {
      const std::vector<double> row = testing::values(gradients.query.view().select(0, 0).select(0, 1).select(0, i));
      const bool sees = i % 2 == 1 && i != 11;
      for (const double value : row) ASSERT_EQ(std::isnan(value), sees) << "query " << i;
    }
  }
}

// NaN of a query or of its grad_out stays away from keys that the query does not see.
TEST_P(AttentionBackwardMasked, KeysThatAQueryDoesNotSeeAreClean) {
  for (const Dtype dtype : kFloating) {
    SCOPED_TRACE(name_of(dtype));
    const Arrays clean(dtype);
    const AttentionOptions causal{.mask = Mask::causal(Align::top_left)};
    const Gradients wanted = clean.gradients(causal);
    for (const bool in_query : {true, false}) {
      Arrays poisoned = clean;
      put(in_query ? poisoned.q : poisoned.grad_out, {0, 1, 11, 0}, kNan);
      const Gradients gradients = poisoned.gradients(causal);
      for (const auto& [own, other] : {std::pair(&gradients.key, &wanted.key), {&gradients.value, &wanted.value}}) {
        const auto rows = [](const Tensor& x) { return Tensor::copy(x.view().slice(2, 12, 140)); };
        EXPECT_TRUE(testing::same_bits(rows(*own), rows(*other)));
        EXPECT_TRUE(std::isnan(testing::values(*own)[0]));
      }
    }
  }
}

// The first keys that a query sees are not those of the first chunk, and query 11 sees none.
TEST_P(AttentionBackwardMasked, KeysOfLaterChunksAlone) {
  Random random(6);
  constexpr Dtype kDouble = Dtype::f64;
  const Tensor q = normal(random, {2, 2, 40, 16}, kDouble), k = normal(random, {2, 1, 2100, 16}, kDouble),
               v = normal(random, {2, 1, 2100, 24}, kDouble), grad_out = normal(random, {2, 2, 40, 24}, kDouble);
  const Tensor sinks = Tensor::of<double>({2}, {0.5, -2});
  Tensor visible = testing::filled({40, 1}, 1, Dtype::u8);
  visible.view().at<std::uint8_t>({11, 0}) = 0;
  const AttentionOptions options{
      .mask = Mask::causal(Align::bottom_right) & Mask::window(30, 0) & Mask::boolean(visible), .sinks = sinks};
  const reference::AttentionGradients exact = reference::attention_backward(q, k, v, grad_out, options);
  const Gradients gradients = backward(q, k, v, grad_out, options);
  for (const auto& [own, other] : {std::pair(&gradients.query, &exact.query),
                                   {&gradients.key, &exact.key},
                                   {&gradients.value, &exact.value},
                                   {&gradients.sinks, &exact.sinks}}) {
    const std::vector<double> got = testing::values(*own), wanted = testing::values(*other);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-12) << i;
  }
  expect_zeros(gradients.query.view().select(2, 11));
}

// No query of a whole block sees a key, of a whole sequence, or of one without keys.
TEST_P(AttentionBackwardMasked, BlocksWithoutKeys) {
  Random random(7);
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {0, 5});
  for (const Dtype dtype : kFloating) {
    const Tensor q = normal(random, {2, 2, 100, 16}, dtype), k = normal(random, {2, 1, 5, 16}, dtype);
    const Gradients gradients =
        backward(q, k, k, q, {.mask = Mask::causal(Align::bottom_right) & Mask::lengths(lengths)});
    expect_zeros(gradients.query.view().slice(0, 0, 1));
    expect_zeros(gradients.query.view().slice(2, 0, 95));
    EXPECT_GT(testing::largest(gradients.query), 0.01);
  }
  const Tensor rows = normal(random, {100, 2, 16}), keys = normal(random, {5, 1, 16});
  const Tensor of_queries = Tensor::of<std::int32_t>({3}, {0, 60, 100}),
               of_keys = Tensor::of<std::int32_t>({3}, {0, 0, 5});
  const Gradients packed = backward(rows, keys, keys, rows, {.offsets_query = of_queries, .offsets_key = of_keys});
  expect_zeros(packed.query.view().slice(0, 0, 60));
  for (const double value : testing::values(packed.query)) ASSERT_TRUE(std::isfinite(value));
}

// Rows without keys that have a sink: it is all of their log-sum-exp, and they take no part all the same.
TEST_P(AttentionBackwardMasked, RowsWithASinkAloneTakeNoPart) {
  const Tensor visible = holes(), sinks = Tensor::of<float>({2}, {0.5f, -2});
  for (const Dtype dtype : kFloating) {
    const Arrays clean(dtype);
    for (const double cap : {0.0, 2.0}) {
      const AttentionOptions options{.mask = Mask::boolean(visible), .soft_cap = cap, .sinks = sinks};
      const Gradients wanted = clean.gradients(options);
      for (const double poison : {kNan, kInfinity, -kInfinity}) {
        Arrays poisoned = clean;
        put(poisoned.q, {0, 1, 11, 3}, poison);
        put(poisoned.grad_out, {1, 0, 11, 4}, poison);
        testing::expect_same(wanted, poisoned.gradients(options));
      }
    }
  }
}

// Queries that are infinite, though what they give is finite, stay away from keys that they do not see.
TEST_P(AttentionBackwardMasked, InfiniteQueriesReachNoHiddenKey) {
  const Tensor sinks = Tensor::of<float>({2}, {0.5f, -2});
  Random random(4);
  const Tensor table = normal(random, {61, 16}, Dtype::f32, 0.1);
  const Bias shaw = Bias::table(RelativeTable::shaw(table));
  for (const Dtype dtype : kFloating) {
    SCOPED_TRACE(name_of(dtype));
    Arrays clean(dtype);
    for (std::int64_t j = 0; j < 12; ++j)
      put(clean.k, {0, 0, j, 0}, -1);  // so that all that query 11 sees is -infinite
    for (const AttentionOptions& options : {AttentionOptions{.mask = Mask::causal(), .soft_cap = 2},
                                            AttentionOptions{.mask = Mask::causal(), .sinks = sinks},
                                            AttentionOptions{.mask = Mask::causal(), .bias = shaw, .sinks = sinks}}) {
      const Gradients wanted = clean.gradients(options);
      Arrays infinite = clean;
      put(infinite.q, {0, 1, 9, 0}, kInfinity);
      const testing::Forward forward = testing::forward(infinite.q, infinite.k, infinite.v, options);
      const bool shaws = !options.bias.tables().empty();  // whose products are as they come
      if (!shaws) {
        for (const double value : testing::values(forward.out)) ASSERT_TRUE(std::isfinite(value));
      }
      const Gradients gradients = infinite.gradients(options);
      for (const auto& [own, other] : {std::pair(&gradients.key, &wanted.key), {&gradients.value, &wanted.value}}) {
        const auto rows = [](const Tensor& x) { return Tensor::copy(x.view().slice(2, 10, 140)); };
        EXPECT_TRUE(testing::same_bits(rows(*own), rows(*other)));
      }
      // Rows of Shaw's table that only pairs it does not see would meet, and only other queries meet.
      if (shaws) {
        const auto far = [](const Gradients& x) { return Tensor::copy(x.tables[0].view().slice(0, 0, 30 - 9)); };
        EXPECT_TRUE(testing::same_bits(far(gradients), far(wanted)));
        EXPECT_GT(testing::largest(far(wanted)), 0);
      }
    }
  }
}

// Nor does a row of Shaw's table reach a query that sees no pair of its distance, or a score's parameter a row without
// keys or a hidden key.
TEST_P(AttentionBackwardMasked, ParametersReachNoHiddenPair) {
  const Mask mask = Mask::window(3, 3);
  const Arrays arrays(Dtype::f32);
  Random random(5);
  Tensor table = normal(random, {21, 16}, Dtype::f32, 0.1);
  const auto shaw = [&] { return arrays.gradients({.mask = mask, .bias = Bias::table(RelativeTable::shaw(table))}); };
  const Gradients wanted = shaw();
  put(table, {20, 3}, kNan);  // ten keys ahead
  testing::expect_same(wanted, shaw());

  const Tensor visible = holes();
  for (const bool is_bilinear : {true, false}) {
    Tensor w = normal(random, {16, 16}), w_key = normal(random, {16, 16}), factors = normal(random, {16});
    for (Tensor* parameter : {&w, &w_key, &factors}) {
      put(*parameter, parameter == &factors ? Dims{2} : Dims{2, 2}, kNan);
      const Gradients gradients =
          arrays.gradients({.mask = Mask::boolean(visible),
                            .score = is_bilinear ? Score::bilinear(w) : Score::additive(w, w_key, factors)});
      expect_zeros(gradients.query.view().select(2, 11));
      for (const std::int64_t j : {0, 70, 139}) expect_zeros(gradients.key.view().select(2, j));
      if (is_bilinear) break;
    }
  }
}

// An additive bias of -infinity is arithmetic, not a mask, but a row of it has no keys either.
TEST_P(AttentionBackwardMasked, RowsOfInfiniteBias) {
  Tensor bias = testing::filled({30, 140}, 0);
  for (std::int64_t j = 0; j < 140; ++j) bias.view().at<float>({4, j}) = -static_cast<float>(kInfinity);
  for (std::int64_t i = 0; i < 30; ++i) bias.view().at<float>({i, 8}) = -static_cast<float>(kInfinity);
  const AttentionOptions options{.bias = Bias::view(bias)};
  const Gradients gradients = Arrays(Dtype::f32).gradients(options);
  expect_zeros(gradients.query.view().select(2, 4));
  expect_zeros(gradients.key.view().select(2, 8));
  expect_zeros(gradients.value.view().select(2, 8));
  EXPECT_GT(testing::largest(gradients.query), 0.01);
  Arrays poisoned(Dtype::f32);
  put(poisoned.grad_out, {0, 1, 4, 3}, kNan);
  testing::expect_same(gradients, poisoned.gradients(options));
}

}  // namespace
}  // namespace qkv
