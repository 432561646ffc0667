// Precision reduced: within its bound of the double reference, the bits that rounding the inputs beforehand gives, the
// contract of reproducibility, and the exact kernel's bits wherever there is none of its own.
#include <functional>

#include "attention/attention_case.h"
#include "attention/attention_testing.h"
#include "attention/forward/reduced_expectation.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_jvp.h"
#include "qkv/attention/attention_plan.h"

namespace qkv {
namespace {

using testing::attend;
using testing::Outcome;

AttentionOptions reduced(AttentionOptions options = {}) {
  options.precision = Precision::reduced;
  return options;
}

using AttentionReduced = testing::OnEachTarget;

// None on most CPUs.
std::vector<std::string> reduced_targets() {
  std::vector<std::string> names;
  for (const std::string& name : testing::usable_targets()) {
    select_target(name);
    if (has_reduced_precision()) names.push_back(name);
  }
  select_target("");
  return names;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AttentionReduced);
INSTANTIATE_TEST_SUITE_P(Target, AttentionReduced, ::testing::ValuesIn(reduced_targets()),
                         testing::test_name_of_target);

// Masks, biases, scores, types, strides, forms and sizes of every kind. At least a tenth of the cases must
// be reduced: numbers of many kinds, single queries and f64 are not.
void expect_bound(std::uint64_t first, std::uint64_t last) {
  std::uint64_t differing = 0;
  for (std::uint64_t seed = first; seed < last && !::testing::Test::HasFailure(); ++seed) {
    testing::run_case(seed, [&](const testing::AttentionCase& drawn) {
      const testing::ReducedOutcome outcome = testing::reduced_outcome(drawn);
      EXPECT_EQ(outcome.found, "");
      differing += outcome.is_different;
    });
  }
  EXPECT_GT(10 * differing, last - first);
}

TEST_P(AttentionReduced, StaysWithinItsBound) { expect_bound(1, 101); }

TEST_P(AttentionReduced, StaysWithinItsBoundSlow) { expect_bound(101, 600); }

struct Inputs {
  Inputs(std::uint64_t seed, const Dims& rows, std::int64_t k_len, std::int64_t head_dim, std::int64_t value_dim,
         Dtype dtype = Dtype::f32) {
    Random random(seed);
    q = testing::normal(random, {rows[0], rows[1], rows[2], head_dim}, dtype);
    k = testing::normal(random, {rows[0], rows[1], k_len, head_dim}, dtype);
    v = testing::normal(random, {rows[0], rows[1], k_len, value_dim}, dtype);
  }
  Inputs as(Dtype dtype) const {
    Inputs other = *this;
    for (Tensor* tensor : {&other.q, &other.k, &other.v}) *tensor = convert(*tensor, dtype);
    return other;
  }
  Outcome attend(const AttentionOptions& options) const { return testing::attend(q, k, v, options); }
  Tensor q, k, v;
};

// Rounding the inputs beforehand, to nearest and by other code, changes no bit; nor does where bf16 is kept.
TEST_P(AttentionReduced, RoundsInputsToNearest) {
  for (const std::int64_t size : {1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 64, 65, 100}) {
    SCOPED_TRACE(size);
    const Inputs inputs(static_cast<std::uint64_t>(size), {1, 2, 51}, 131, size, 101 - size);
    const Inputs rounded = inputs.as(Dtype::bf16);
    const Outcome outcome = inputs.attend(reduced());
    expect_same(outcome, rounded.as(Dtype::f32).attend(reduced()));
    Tensor out = testing::filled(outcome.out.shape(), testing::kNan);
    attention(rounded.q, rounded.k, rounded.v, out, reduced());
    EXPECT_TRUE(testing::same_bits(out, outcome.out));
    EXPECT_FALSE(testing::same_bits(outcome.out, inputs.attend({}).out));
  }
}

TEST_P(AttentionReduced, TheSameBitsForAnyThreadsBatchAndForm) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    const Inputs inputs(3, {2, 3, 103}, 1231, 20, 37, dtype);
    const AttentionOptions options = reduced({.mask = Mask::causal(Align::bottom_right), .threads = 1});
    const Outcome one = inputs.attend(options);
    for (const int threads : {2, 3, 4, 7, 16}) {
      AttentionOptions more = options;
      more.threads = threads;
      expect_same(one, inputs.attend(more));
    }
    // The second sequence alone; its last queries alone, which see all of the keys; padding behind its keys.
    const auto of_second = [](const Tensor& tensor) { return tensor.view().select(0, 1); };
    const TensorView q = of_second(inputs.q), k = of_second(inputs.k), v = of_second(inputs.v);
    EXPECT_TRUE(testing::same_bits(of_second(one.out), attention(q, k, v, options)));
    for (const std::int64_t first : {1, 50, 101}) {
      const Tensor some = attention(q.slice(1, first, 103), k, v, options);
      EXPECT_TRUE(testing::same_bits(of_second(one.out).slice(1, first, 103), some));
    }
    const Tensor lengths = Tensor::of<std::int32_t>({2}, {1001, 77});
    const Outcome padded = inputs.attend(reduced({.mask = Mask::lengths(lengths)}));
    const Tensor cropped = attention(q, k.slice(1, 0, 77), v.slice(1, 0, 77), reduced());
    EXPECT_TRUE(testing::same_bits(of_second(padded.out), cropped));
    // Packed rows of both sequences.
    const auto rows = [](const TensorView& view) { return Tensor::copy(view.transpose(0, 1)); };
    const Tensor offsets_query = Tensor::of<std::int32_t>({2}, {0, 103}),
                 offsets_key = Tensor::of<std::int32_t>({2}, {0, 1231});
    AttentionOptions packed = options;
    packed.offsets_query = offsets_query, packed.offsets_key = offsets_key;
    const Tensor out = attention(rows(q), rows(k), rows(v), packed);
    EXPECT_TRUE(testing::same_bits(rows(of_second(one.out)), out));
  }
}

TEST(AttentionReducedTiles, AreTakenOnTheTargetOfThatName) {
  const std::vector<std::string> names = reduced_targets();
  if (std::find(names.begin(), names.end(), "amx") == names.end()) GTEST_SKIP() << "this CPU has no tiles";
  const Inputs inputs(16, {1, 2, 50}, 100, 64, 64);
  select_target("amx");
  const Outcome tiles = inputs.attend(reduced()), exact = inputs.attend({});
  select_target("avx512-bf16");
  EXPECT_FALSE(testing::same_bits(tiles.out, inputs.attend(reduced()).out));
  expect_same(exact, inputs.attend({}));
  select_target("");
}

// More keys than a thread keeps converted: blocks of queries in turns, and one head alone, which has too few.
TEST_P(AttentionReduced, TurnsChangeNoBit) {
  const Inputs inputs(14, {1, 8, 100}, 1300, 256, 256);
  const AttentionOptions options = reduced({.mask = Mask::causal(Align::bottom_right), .threads = 1});
  const Outcome all = inputs.attend(options);
  for (const std::int64_t h : {0, 7}) {
    const auto head = [&](const Tensor& tensor) { return tensor.view().select(0, 0).slice(0, h, h + 1); };
    const Outcome one = testing::attend(head(inputs.q), head(inputs.k), head(inputs.v), options);
    EXPECT_TRUE(testing::same_bits(head(all.out), one.out));
    EXPECT_TRUE(testing::same_bits(head(all.logits), one.logits));
  }
}

// Neighbouring keys in different pages, of any number of rows.
TEST_P(AttentionReduced, PagesChangeNoBit) {
  const Inputs inputs(4, {1, 2, 60}, 150, 24, 40);
  const Tensor whole = attention(inputs.q, inputs.k, inputs.v, reduced());
  for (const std::int64_t page_rows : {1, 3, 10, 25}) {
    const std::int64_t pages = 150 / page_rows;
    std::vector<std::int32_t> table;
    for (std::int64_t page = 0; page < pages; ++page) table.push_back(static_cast<std::int32_t>(pages - 1 - page));
    const auto paged = [&](const Tensor& keys) {
      Tensor to = Tensor::zeros({pages, page_rows, 2, keys.size(3)});
      for (std::int64_t page = 0; page < pages; ++page) {
        const TensorView rows = keys.view().select(0, 0).slice(1, page * page_rows, (page + 1) * page_rows);
        convert(rows.transpose(0, 1), to.view().select(0, pages - 1 - page));
      }
      return to;
    };
    AttentionOptions options = reduced();
    const Tensor block_table = Tensor::of({1, pages}, table);
    options.block_table = block_table;
    EXPECT_TRUE(testing::same_bits(whole, attention(inputs.q, paged(inputs.k), paged(inputs.v), options)));
  }
}

// The largest float is finite, but not in bf16.
TEST_P(AttentionReduced, WhatIsMaskedNeverLeaks) {
  const Tensor lengths = Tensor::of<std::int32_t>({1}, {130});
  Random random(5);
  const Tensor boolean = testing::coin_flips(random, {1, 1, 53, 300}, 0.3);
  for (const double poison : {testing::kNan, testing::kInfinity, -3.4028234663852886e38}) {
    Inputs inputs(6, {1, 2, 53}, 300, 16, 21);
    const std::vector<AttentionOptions> all = {{.mask = Mask::lengths(lengths)},
                                               {.mask = Mask::causal() & Mask::boolean(boolean)},
                                               {.mask = Mask::window(20, 3), .soft_cap = 5}};
    for (const AttentionOptions& options : all) {
      const Outcome clean = inputs.attend(reduced(options));
      const std::vector<double> logits = testing::values(clean.logits);
      Inputs poisoned = inputs;
      int unseen = 0;
      for (std::int64_t j = 0; j < 300; ++j) {
        bool seen = false;
        for (std::int64_t row = 0; row < 2 * 53; ++row) {
          seen = seen || logits[static_cast<std::size_t>(row * 300 + j)] != -testing::kInfinity;
        }
        if (seen) continue;
        ++unseen;
        for (Tensor* tensor : {&poisoned.k, &poisoned.v}) {
          const MutableTensorView rows = tensor->view().slice(2, j, j + 1);
          convert(testing::filled(rows.shape(), poison), rows);
        }
      }
      EXPECT_GT(unseen, 0);
      expect_same(clean, poisoned.attend(reduced(options)));
      // A value that some queries see reaches these alone.
      convert(testing::filled({1, 2, 1, 21}, poison), poisoned.v.view().slice(2, 40, 41));
      const Outcome partly = poisoned.attend(reduced(options));
      for (std::int64_t row = 0; row < 2 * 53; ++row) {
        const bool sees = logits[static_cast<std::size_t>(row * 300 + 40)] != -testing::kInfinity;
        const auto own = [&](const Tensor& tensor) {
          return tensor.view().select(1, row / 53).slice(1, row % 53, row % 53 + 1);
        };
        EXPECT_NE(testing::same_bits(own(clean.out), own(partly.out)), sees) << row;
      }
    }
  }
}

// Inputs that bf16 holds give exact products: only weights are rounded, whatever the size of the logits.
TEST_P(AttentionReduced, HugeLogits) {
  for (const double size : {1e4, 1e15, 1e30}) {
    Inputs inputs = Inputs(7, {1, 1, 50}, 200, 1, 8).as(Dtype::bf16);
    inputs.q = convert(testing::filled({1, 1, 50, 1}, size), Dtype::bf16);
    const Outcome outcome = inputs.attend(reduced());
    const Tensor exact = reference::attention(inputs.q, inputs.k, inputs.v).out;
    EXPECT_LE(testing::difference(outcome.out, exact), 0.02 * testing::largest(inputs.v));
  }
}

TEST_P(AttentionReduced, RowsWithoutKeysAndEmptyInputs) {
  const Inputs inputs(8, {1, 2, 40}, 30, 9, 5);
  const Outcome outcome = inputs.attend(reduced({.mask = Mask::causal(Align::bottom_right)}));  // 10 rows see nothing
  for (const double x : testing::values(outcome.out.view().slice(2, 0, 10))) EXPECT_EQ(x, 0);
  for (const double x : testing::values(outcome.log_sum_exp.view().slice(2, 0, 10))) EXPECT_EQ(x, -testing::kInfinity);
  EXPECT_EQ(testing::largest(Inputs(9, {2, 1, 5}, 0, 8, 8).attend(reduced()).out), 0);
  EXPECT_EQ(Inputs(9, {0, 1, 5}, 4, 8, 8).attend(reduced()).out.element_count(), 0);
}

// What is asked for besides the output is of the same logits.
TEST_P(AttentionReduced, ChosenRowsAndStatistics) {
  const Inputs inputs(10, {1, 2, 70}, 90, 32, 16);
  const Outcome outcome = inputs.attend(reduced());
  const Tensor rows = Tensor::of<std::int64_t>({2, 3}, {0, 1, 69, 0, 0, 5});
  Tensor row_weights = Tensor::zeros({2, 90}), row_maximum = Tensor::zeros({1, 2, 70});
  attention(inputs.q, inputs.k, inputs.v, reduced(),
            {.rows = rows, .row_weights = row_weights, .row_maximum = row_maximum});
  EXPECT_TRUE(testing::same_bits(row_weights.view().select(0, 0),
                                 outcome.weights.view().select(0, 0).select(0, 1).select(0, 69)));
  EXPECT_TRUE(testing::same_bits(row_weights.view().select(0, 1),
                                 outcome.weights.view().select(0, 0).select(0, 0).select(0, 5)));
  const std::vector<double> logits = testing::values(outcome.logits), maximum = testing::values(row_maximum);
  for (std::size_t row = 0; row < 140; ++row) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(90 * row);
    EXPECT_EQ(maximum[row], *std::max_element(first, first + 90));
  }
}

// Single queries are exact, whatever is asked of their weights, alone and packed beside several.
TEST_P(AttentionReduced, StatisticsOfSingleQueries) {
  struct Statistics {
    explicit Statistics(std::int64_t rows)
        : entropy(testing::filled({rows, 2}, 7)), maximum(testing::filled({rows, 2}, 7)) {}
    Tensor entropy, maximum;
  };
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    for (const std::int64_t size : {16, 64, 512}) {
      Random random(17);
      const std::int64_t k_len = 200;
      const Tensor q = testing::normal(random, {81, 2, size}, dtype);
      const Tensor k = testing::normal(random, {3 * k_len, 2, size}, dtype);
      const Tensor q_offsets = Tensor::of<std::int32_t>({4}, {0, 1, 80, 81});
      const Tensor k_offsets = Tensor::of<std::int32_t>({4}, {0, k_len, 2 * k_len, 3 * k_len});
      const auto attend = [&](Precision precision) {
        Statistics found(81);
        const AttentionOptions options{
            .precision = precision, .offsets_query = q_offsets, .offsets_key = k_offsets, .threads = 1};
        attention(q, k, k, options, {.row_maximum = found.maximum, .entropy = found.entropy});
        return found;
      };
      const Statistics lower = attend(Precision::reduced), exact = attend(Precision::exact);
      for (const std::int64_t row : {0, 80}) {
        const auto own = [&](const Tensor& of) { return of.view().slice(0, row, row + 1); };
        EXPECT_TRUE(testing::same_bits(own(lower.entropy), own(exact.entropy))) << size;
        EXPECT_TRUE(testing::same_bits(own(lower.maximum), own(exact.maximum))) << size;
        // The sequence alone.
        const auto heads = [](const TensorView& rows) { return rows.transpose(0, 1); };
        const std::int64_t first = row == 0 ? 0 : 2 * k_len;
        const TensorView keys = heads(k.view().slice(0, first, first + k_len));
        Tensor entropy = testing::filled({2, 1}, 7);
        attention(heads(own(q)), keys, keys, {.precision = Precision::reduced}, {.entropy = entropy});
        EXPECT_TRUE(testing::same_bits(heads(entropy), own(exact.entropy))) << size;
      }
    }
  }
}

// Sequences that share all of their pages, one of them a single query between the others: what a thread keeps of the
// keys for the next sequence is not what the other precision kept.
TEST_P(AttentionReduced, PrecisionsInTurnsOverTheSamePages) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Random random(18);
    const Tensor q = testing::normal(random, {79, 1, 32}, dtype), k = testing::normal(random, {1, 200, 1, 32}, dtype);
    const Tensor offsets = Tensor::of<std::int32_t>({4}, {0, 39, 40, 79}), own = Tensor::of<std::int32_t>({2}, {0, 39});
    const Tensor page = Tensor::zeros({1, 1}, Dtype::i32);
    const auto maxima = [&](const TensorView& queries, const TensorView& of, std::int64_t batch) {
      Tensor maximum = testing::filled({queries.size(0), 1}, 7);
      const AttentionOptions options{.mask = Mask::window(-1, 100),
                                     .precision = Precision::reduced,
                                     .offsets_query = of,
                                     .block_table = page.view().broadcast_to({batch, 1}),
                                     .threads = 1};
      attention(queries, k, k, options, {.row_maximum = maximum});
      return maximum;
    };
    const Tensor all = maxima(q, offsets, 3);
    for (const std::int64_t first : {0, 40}) {
      const Tensor alone = maxima(q.view().slice(0, first, first + 39), own, 1);
      EXPECT_TRUE(testing::same_bits(all.view().slice(0, first, first + 39), alone)) << first;
    }
  }
}

QKV_ON_EACH_TARGET(AttentionReducedFallback);

TEST_P(AttentionReducedFallback, IsExactWhereThereIsNoKernel) {
  const auto expect_exact = [](const Inputs& inputs, const AttentionOptions& options, const std::string& reason) {
    SCOPED_TRACE(reason);
    expect_same(inputs.attend(reduced(options)), inputs.attend(options));
    const AttentionPlan planned = plan(inputs.q, inputs.k, inputs.v, reduced(options));
    EXPECT_EQ(planned.precision, Precision::exact);
    EXPECT_TRUE(std::any_of(planned.remarks.begin(), planned.remarks.end(), [&](const std::string& remark) {
      return remark.find("precision reduced") == 0 && remark.find(reason) != std::string::npos;
    }));
  };
  const Inputs inputs(11, {1, 2, 40}, 50, 16, 16);
  if (!has_reduced_precision()) {
    expect_exact(inputs, {}, "target " + GetParam() + " on this CPU does not multiply in bf16");
    return;
  }
  EXPECT_TRUE(GetParam() == "avx512-bf16" || GetParam() == "amx");
  EXPECT_EQ(plan(inputs.q, inputs.k, inputs.v, reduced()).precision, Precision::reduced);
  EXPECT_EQ(plan(inputs.q, inputs.k, inputs.v).precision, Precision::exact);
  expect_exact(inputs.as(Dtype::f64), {}, "f64");
  expect_exact(Inputs(12, {1, 2, 1}, 50, 16, 16), {}, "single queries");
  expect_exact(Inputs(15, {1, 1, 3}, 5, 8, 513), {}, "sizes above 512");
  Random random(13);
  const Tensor w_query = testing::normal(random, {8, 16}), w_key = testing::normal(random, {8, 16}),
               of_hidden = testing::normal(random, {8});
  expect_exact(inputs, {.score = Score::additive(w_query, w_key, of_hidden)}, "score");
}

TEST(AttentionReducedDerivatives, AreRefused) {
  const auto [q, k, v] = Inputs(14, {1, 1, 4}, 4, 8, 8);
  const Outcome outcome = attend(q, k, v);
  Tensor place = Tensor::zeros(q.shape());
  const auto expect_refused = [](const std::string& message, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << message;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), message);
    }
  };
  expect_refused("attention_backward: precision must be exact", [&] {
    attention_backward(q, k, v, outcome.out, outcome.log_sum_exp, outcome.out, reduced(), {.query = place});
  });
  expect_refused("attention_jvp: precision must be exact", [&] {
    attention_jvp(q, k, v, outcome.out, outcome.log_sum_exp, {.query = q}, reduced(), {.out = place});
  });
}

}  // namespace
}  // namespace qkv
