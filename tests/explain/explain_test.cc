// The worked example against numbers computed outside this project (double precision, by hand and with plain Python).
#include "qkv/explain/explain.h"

#include <cmath>

#include "explain/example.h"

namespace qkv {
namespace {

using test::expect_values;
using test::matrix;
using test::quantity;

constexpr double kPrinted = 5e-9;  // the expected numbers have nine digits
const std::vector<double> kUnscaled = {1.93662106,  6.68310531, 1.59506841, 1.99999397, 7.9639916,
                                       .0539764053, 1.99970461, 7.75989225, .358389295};

Tensor tutorial_weights() { return matrix(3, 3, {0, .5, .5, 0, 1, 0, 0, .9, .1}); }

TEST(Explain, WorkedExampleHasItsKeysQueriesAndValues) {
  const Explanation explanation = explain(worked_example());
  expect_values(quantity(explanation, "key"), {3, 3}, {0, 1, 1, 4, 4, 0, 2, 3, 1}, 0);
  expect_values(quantity(explanation, "query"), {3, 3}, {1, 0, 2, 2, 2, 2, 2, 1, 3}, 0);
  expect_values(quantity(explanation, "value"), {3, 3}, {1, 2, 3, 2, 8, 0, 2, 6, 3}, 0);
  expect_values(quantity(explanation, "logits"), {3, 3}, {2, 4, 4, 4, 16, 12, 4, 12, 10}, 1e-14);
}

TEST(Explain, WorkedExampleUnscaled) {
  const Explanation explanation = explain(worked_example());
  EXPECT_EQ(explanation.score, "dot");
  EXPECT_EQ(explanation.scale, 1);
  expect_values(quantity(explanation, "weights"), {3, 3},
                {.0633789383, .468310531, .468310531, 6.03366485e-06, .982007865, .0179861014, 2.95387223e-04,
                 .880536902, .119167711},
                kPrinted);
  expect_values(quantity(explanation, "log_sum_exp"), {3}, {4.75862368, 16.018156, 12.1272234}, 5e-8);
  expect_values(explanation.output, {3, 3}, kUnscaled, kPrinted);
  EXPECT_LT(explanation.largest_difference, 1e-13);  // sums of a few numbers below 20 in double
}

TEST(Explain, WorkedExampleScaled) {
  ExplainInput input = worked_example();
  input.score = Score::Kind::scaled_dot;
  const Explanation explanation = explain(input);
  EXPECT_DOUBLE_EQ(explanation.scale, 1 / std::sqrt(3.0));
  expect_values(quantity(explanation, "weights"), {3, 3},
                {.136125798, .431937101, .431937101, 8.90447391e-04, .908842647, .0902669054, .00744489238, .754707581,
                 .237847527},
                kPrinted);
  expect_values(
      explanation.output, {3, 3},
      {1.8638742, 6.31937101, 1.7041887, 1.99910955, 7.8141235, .273472058, 1.99255511, 7.47963559, .735877258},
      kPrinted);
}

TEST(Explain, WorkedExampleScaledWithLookAhead) {
  ExplainInput input = worked_example();
  input.score = Score::Kind::scaled_dot;
  input.causal = Align::top_left;
  const Explanation explanation = explain(input);
  expect_values(explanation.output, {3, 3},
                {1, 2, 3, 1.9990212, 7.9941272, .0029364021, 1.99255511, 7.47963559, .735877258}, kPrinted);
  EXPECT_EQ(quantity(explanation, "logits").data<double>()[1], -std::numeric_limits<double>::infinity());
}

// The scores of input 1 are 2, 4 and 4, the values (1, 2, 3), (2, 8, 0) and (2, 6, 3).
TEST(Explain, WorkedExampleScaledWithPrefixAndWindow) {
  ExplainInput input = worked_example();
  input.score = Score::Kind::scaled_dot;
  const double later = 1 / (1 + std::exp(-2 / std::sqrt(3.0))), first = 1 - later;
  ExplainInput prefix = input;
  prefix.prefix = 2;
  const Tensor of_prefix = explain(prefix).output;
  ExplainInput dilated = input;
  dilated.window = Mask::dilated(-1, -1, 2);
  const Tensor of_dilated = explain(dilated).output;
  for (std::int64_t e = 0; e < 3; ++e) {
    const double values[3][3] = {{1, 2, 3}, {2, 8, 0}, {2, 6, 3}};
    EXPECT_NEAR(of_prefix.view().at<double>({0, e}), first * values[0][e] + later * values[1][e], 1e-12);
    EXPECT_NEAR(of_dilated.view().at<double>({0, e}), first * values[0][e] + later * values[2][e], 1e-12);
    EXPECT_EQ(of_dilated.view().at<double>({1, e}), values[1][e]);
  }
  prefix.prefix = -1;
  EXPECT_THROW(explain(prefix), std::invalid_argument);
}

TEST(Explain, VariantsStandBesideTheWorkedExample) {
  const Explanation explanation = explain(worked_example());
  expect_values(quantity(explanation, "output, scaled"), {3, 3}, {1.8638742, 6.31937101, 1.7041887}, kPrinted);
  expect_values(quantity(explanation, "output, scaled, look-ahead"), {3, 3}, {1, 2, 3, 1.9990212}, kPrinted);
}

TEST(Explain, WeightedValuesAreWeightTimesValue) {
  const Explanation explanation = explain(worked_example());
  const Tensor all = quantity(explanation, "weighted_values");
  ASSERT_EQ(all.shape(), (Dims{3, 3, 3}));
  // Query 1, key 2: 0.468310531 x (2 8 0).
  EXPECT_NEAR(all.view().at<double>({0, 1, 0}), .936621062, kPrinted);
  EXPECT_NEAR(all.view().at<double>({0, 1, 1}), 3.746484248, kPrinted);
  EXPECT_EQ(all.view().at<double>({0, 1, 2}), 0);
}

TEST(Explain, SubstitutedWeightsGiveTheTutorialsTable) {
  ExplainInput input = worked_example();
  input.substitutes["weights"] = tutorial_weights();
  const Explanation explanation = explain(input);
  // Half of values 2 and 3; value 2; nine tenths of value 2 and a tenth of value 3.
  expect_values(explanation.output, {3, 3}, {2, 7, 1.5, 2, 8, 0, 2, 7.8, .3}, 1e-15);
  expect_values(explanation.true_output, {3, 3}, kUnscaled, kPrinted);
  expect_values(quantity(explanation, "true weights"), {3, 3}, {.0633789383, .468310531, .468310531}, kPrinted);
  EXPECT_EQ(explanation.substituted, std::vector<std::string>{"weights"});
}

TEST(Explain, SubstitutedLogitsAreFinal) {
  ExplainInput input = worked_example();
  input.score = Score::Kind::scaled_dot;  // neither the scale nor the mask touches logits of the user's
  input.causal = Align::top_left;
  input.substitutes["logits"] = matrix(3, 3, {2, 4, 4, 4, 16, 12, 4, 12, 10});
  expect_values(explain(input).output, {3, 3}, kUnscaled, kPrinted);
}

TEST(Explain, SubstitutedScoresAreScaledAndMasked) {
  ExplainInput input = worked_example();
  input.score = Score::Kind::scaled_dot;
  input.causal = Align::top_left;
  input.w_query = matrix(4, 3, std::vector<double>(12, 0));
  input.substitutes["scores"] = matrix(3, 3, {2, 4, 4, 4, 16, 12, 4, 12, 10});
  expect_values(explain(input).output, {3, 3},
                {1, 2, 3, 1.9990212, 7.9941272, .0029364021, 1.99255511, 7.47963559, .735877258}, kPrinted);
}

TEST(Explain, SubstitutedProjectionsCarryOn) {
  for (const char* name : {"inputs", "query", "key", "value"}) {
    ExplainInput input = worked_example();
    input.substitutes[name] = quantity(explain(worked_example()), name);
    expect_values(explain(input).output, {3, 3}, kUnscaled, kPrinted);
  }
  ExplainInput input = worked_example();
  input.substitutes["query"] = matrix(3, 3, std::vector<double>(9, 0));  // no key matters more: the mean of the values
  expect_values(explain(input).output, {3, 3}, {5. / 3, 16. / 3, 2, 5. / 3, 16. / 3, 2, 5. / 3, 16. / 3, 2}, 1e-14);
}

TEST(Explain, EmbeddingAndBiasesShiftTheProjections) {
  ExplainInput input = worked_example();
  // The embedding swaps the first two numbers of an input; swapping the rows of the weights undoes it.
  input.w_embed = matrix(4, 4, {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  input.w_query = matrix(4, 3, {1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 1});
  input.w_key = matrix(4, 3, {1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 0});
  input.w_value = matrix(4, 3, {0, 3, 0, 0, 2, 0, 1, 0, 3, 1, 1, 0});
  input.b_value = Tensor::of<double>({3}, {10, 20, 30});  // weights add up to 1: each output moves by the bias
  const Explanation explanation = explain(input);
  std::vector<double> expected = kUnscaled;
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += 10 * static_cast<double>(i % 3 + 1);
  expect_values(explanation.output, {3, 3}, expected, kPrinted * 10);
  expect_values(quantity(explanation, "embedded"), {3, 4}, {0, 1, 1, 0, 2, 0, 0, 2, 1, 1, 1, 1}, 0);
  input.b_query = input.b_key = Tensor::of<double>({1, 3}, {1, 0, 0});
  const Explanation moved = explain(input);
  expect_values(quantity(moved, "query"), {3, 3}, {2, 0, 2, 3, 2, 2, 3, 1, 3}, 0);
  expect_values(quantity(moved, "key"), {3, 3}, {1, 1, 1, 5, 4, 0, 3, 3, 1}, 0);
}

TEST(Explain, MaskHidesKeys) {
  ExplainInput input = worked_example();
  input.mask = matrix(3, 3, {1, 0, 0, 0, 1, 0, 0, 0, 0});  // the third sees nobody
  const Explanation explanation = explain(input);
  expect_values(explanation.output, {3, 3}, {1, 2, 3, 2, 8, 0, 0, 0, 0}, 0);
  input.mask = matrix(1, 3, {0, 1, 0});
  expect_values(explain(input).output, {3, 3}, {2, 8, 0, 2, 8, 0, 2, 8, 0}, 0);
}

TEST(Explain, RefusesWhatDoesNotFit) {
  const auto message = [](auto change) -> std::string {
    ExplainInput input = worked_example();
    change(input);
    try {
      explain(input);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const Tensor wrong = matrix(2, 5, std::vector<double>(10, 1));
  holds(message([&](ExplainInput& input) { input.substitutes["wieghts"] = wrong; }),
        "no \"wieghts\" to substitute; there are inputs, query, key, value, scores, logits, weights");
  holds(message([&](ExplainInput& input) { input.substitutes["weights"] = wrong; }),
        "must be [3, 3] in f64, got [2, 5]");
  holds(message([&](ExplainInput& input) { input.w_query = wrong; }), "w_query must have 4 rows");
  holds(message([&](ExplainInput& input) { input.w_key = matrix(4, 2, std::vector<double>(8, 1)); }),
        "w_query has 3 columns, w_key 2");
  holds(message([&](ExplainInput& input) { input.w_embed = wrong; }), "w_embed must have 4 columns");
  holds(message([&](ExplainInput& input) { input.b_key = wrong; }), "b_key must be 3 numbers");
  holds(message([&](ExplainInput& input) { input.mask = wrong; }), "mask must be [3, 3]");
  holds(message([&](ExplainInput& input) { input.mask = matrix(1, 3, {1, .5, 1}); }), "1 (may attend) and 0 (hidden)");
  holds(message([&](ExplainInput& input) { input.inputs = Tensor::zeros({2, 3, 4}, Dtype::f64); }),
        "inputs must be a matrix");
  holds(message([&](ExplainInput& input) { input.score = Score::Kind::bilinear; }),
        "score_w must be a matrix of 3 columns");
  holds(message([&](ExplainInput& input) { input.labels = {"a"}; }), "1 labels for 3 inputs");
  holds(message([&](ExplainInput& input) { input.picture = {3, 3}; }), "4 pixels");
  holds(message([&](ExplainInput& input) { input.scale = std::nan(""); }), "scale must be finite");
}

}  // namespace
}  // namespace qkv
