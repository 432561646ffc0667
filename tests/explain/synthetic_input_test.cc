// Synthetic inputs and weights, and every score on them against the reference.
#include <cmath>

#include "core/stop.h"
#include "explain/example.h"
#include "qkv/error.h"
#include "qkv/explain/explain.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using test::matrix;
using test::quantity;

ExplainInput synthetic(const SyntheticInput& choice, Score::Kind score = Score::Kind::scaled_dot) {
  ExplainInput input;
  input.score = score;
  generate_missing(input, choice);
  return input;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::equal(a.data<double>(), a.data<double>() + a.element_count(), b.data<double>());
}

TEST(SyntheticInput, GivesTheShapesAskedFor) {
  const ExplainInput input = synthetic({.inputs = 7, .dim = 5, .key_dim = 3, .value_dim = 2}, Score::Kind::additive);
  EXPECT_EQ(input.inputs.shape(), (Dims{7, 5}));
  EXPECT_EQ(input.w_query.shape(), (Dims{5, 3}));
  EXPECT_EQ(input.w_key.shape(), (Dims{5, 3}));
  EXPECT_EQ(input.w_value.shape(), (Dims{5, 2}));
  EXPECT_EQ(input.score_w_query.shape(), (Dims{3, 3}));
  EXPECT_EQ(input.score_v.shape(), (Dims{3}));
  EXPECT_EQ(explain(input).output.shape(), (Dims{7, 2}));
}

// The stop token is asked once a row of all that is generated.
TEST(SyntheticInput, AsksForAStop) {
  ExplainInput input;
  const std::int64_t before = stop_checks();
  generate_missing(input, {.inputs = 30, .dim = 20, .key_dim = 7});
  EXPECT_GE(stop_checks() - before, 30 + 3 * 20);
  std::stop_source source;
  source.request_stop();
  ExplainInput stopped;
  stopped.stop = source.get_token();
  EXPECT_THROW(generate_missing(stopped, {}), Stopped);
}

TEST(SyntheticInput, TheSeedDecidesAll) {
  const ExplainInput one = synthetic({.seed = 1}), again = synthetic({.seed = 1}), two = synthetic({.seed = 2});
  EXPECT_TRUE(equal(one.inputs, again.inputs) && equal(one.w_query, again.w_query));
  EXPECT_FALSE(equal(one.inputs, two.inputs));
  EXPECT_FALSE(equal(one.w_query, two.w_query));
  EXPECT_FALSE(equal(one.w_query, one.w_key));
}

TEST(SyntheticInput, WhatIsGivenStaysAndLeavesTheRest) {
  ExplainInput partly;
  partly.w_key = matrix(4, 4, std::vector<double>(16, .5));
  generate_missing(partly, {});
  const ExplainInput all = synthetic({});
  EXPECT_EQ(partly.w_key.data<double>()[0], .5);
  EXPECT_TRUE(equal(partly.w_query, all.w_query) && equal(partly.w_value, all.w_value) &&
              equal(partly.inputs, all.inputs));
}

TEST(SyntheticInput, DeviationFollowsTheRule) {
  const auto deviation = [](Init init) {
    const ExplainInput input = synthetic({.dim = 300, .key_dim = 100, .init = init});
    double sum = 0;
    for (int i = 0; i < 30000; ++i) sum += input.w_query.data<double>()[i] * input.w_query.data<double>()[i];
    return std::sqrt(sum / 30000);
  };
  // Of 30,000 numbers the deviation is known to 0.4 percent (one sigma).
  EXPECT_NEAR(deviation(Init::normal), 1, .02);
  EXPECT_NEAR(deviation(Init::xavier), std::sqrt(2. / 400), .02 * std::sqrt(2. / 400));
  EXPECT_NEAR(deviation(Init::kaiming), std::sqrt(2. / 300), .02 * std::sqrt(2. / 300));
}

Score score_of(const ExplainInput& input) {
  switch (input.score) {
    case Score::Kind::dot:
      return Score::dot();
    case Score::Kind::additive:
      return Score::additive(input.score_w_query, input.score_w_key, input.score_v);
    case Score::Kind::concat:
      return Score::concat(input.score_w, input.score_v);
    case Score::Kind::bilinear:
      return Score::bilinear(input.score_w);
    case Score::Kind::scaled_dot:
      break;
  }
  return Score::scaled_dot();
}

TEST(SyntheticInput, EveryScoreAgreesWithTheReference) {
  for (const Score::Kind kind :
       {Score::Kind::dot, Score::Kind::scaled_dot, Score::Kind::additive, Score::Kind::concat, Score::Kind::bilinear}) {
    const ExplainInput input = synthetic({.inputs = 6, .dim = 5, .key_dim = 4, .value_dim = 3}, kind);
    const Explanation explanation = explain(input);
    AttentionOptions options;
    options.score = score_of(input);
    const auto heads = [](const Tensor& tensor) {
      return tensor.view().reshape({1, 1, tensor.size(0), tensor.size(1)});
    };
    const Tensor query = quantity(explanation, "query"), key = quantity(explanation, "key"),
                 value = quantity(explanation, "value");
    const Tensor expected = reference::attention(heads(query), heads(key), heads(value), options).out;
    // Six keys in double: a few units in the last place; the kernel's own exp and tanh are good to 1e-14.
    for (int i = 0; i < 18; ++i) EXPECT_NEAR(explanation.output.data<double>()[i], expected.data<double>()[i], 1e-12);
    EXPECT_LT(explanation.largest_difference, 1e-12);
    EXPECT_EQ(explanation.score,
              std::vector({"scaled-dot", "dot", "additive", "concat", "bilinear"})[static_cast<std::size_t>(kind)]);
  }
}

TEST(SyntheticInput, RefusesMatricesThatAreNone) {
  ExplainInput input;
  input.inputs = Tensor::zeros({4}, Dtype::f64);
  EXPECT_THROW(generate_missing(input, {}), std::invalid_argument);
  input.inputs = Tensor::zeros({0, 4}, Dtype::f64);
  EXPECT_THROW(generate_missing(input, {}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
