// The walk-through as text: what people read, and what a terminal gets.
#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "core/stop.h"
#include "explain/example.h"
#include "qkv/error.h"
#include "qkv/explain/explain.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

using test::has_line_with;
using test::matrix;

ExplainInput drawn(const SyntheticInput& choice) {
  ExplainInput input;
  generate_missing(input, choice);
  return input;
}

TEST(ExplainText, NamesTheEightStepsInOrder) {
  const std::string text = to_text(explain(worked_example()));
  std::size_t at = 0;
  for (const char* title :
       {"Step 1. Prepare inputs", "Step 2. Initialise weights", "Step 3. Derive key, query and value",
        "Step 4. Scores for the first input", "Step 5. Softmax", "Step 6. Multiply weights with values",
        "Step 7. Sum to output 1", "Step 8. Repeat for the rest"}) {
    const std::size_t next = text.find(title, at);
    ASSERT_NE(next, std::string::npos) << title;
    at = next;
  }
}

// Once a line and once a row of numbers: a user who has seen enough does not wait for the rest.
TEST(ExplainText, AsksForAStop) {
  set_threads(1);  // questions are counted by thread
  ExplainInput input = drawn({.inputs = 50, .dim = 3});
  const auto asked = [](const auto& work) {
    const std::int64_t before = stop_checks();
    work();
    return stop_checks() - before;
  };
  const std::int64_t shortened = asked([&] { explain(input); });
  input.full = true;
  Explanation explanation;
  EXPECT_GE(asked([&] { explanation = explain(input); }) - shortened, 200);  // lines
  EXPECT_GE(asked([&] { to_text(explanation, {.full = true}); }), 300);
  EXPECT_GE(asked([&] { to_json(explanation); }), 300);
  std::stop_source source;
  source.request_stop();
  explanation.stop = source.get_token();
  EXPECT_THROW(to_text(explanation), Stopped);
  EXPECT_THROW(to_json(explanation), Stopped);
  input.stop = explanation.stop;
  EXPECT_THROW(explain(input), Stopped);
  set_threads(0);
}

TEST(ExplainText, ShowsTheKnownNumbers) {
  const std::string text = to_text(explain(worked_example()));
  for (const char* part : {"1.93662 6.68311 1.59507", "1.99999 7.96399 0.05398", "1.99970 7.75989 0.35839",  // unscaled
                           "1.86387 6.31937 1.70419", "1.99911 7.81412 0.27347", "1.99256 7.47964 0.73588",  // scaled
                           "1.00000 2.00000 3.00000", "1.99902 7.99413 0.00294",  // look-ahead
                           "query 1 . key 2 = 1*4 + 0*4 + 2*0 = 4", "0.06338 0.46831 0.46831",
                           "query 1 = 1 (1 0 1) + 0 (1 0 0) + 1 (0 0 1) + 0 (0 1 1) = (1 0 2)", "query [3, 3]",
                           "Both ways agree: largest difference 0.", "who matters to me", "how others find me",
                           "what I pass on", "[2.0 7.0 1.5]", "Largest difference from the reference"}) {
    EXPECT_TRUE(has_line_with(text, part)) << part;
  }
}

TEST(ExplainText, SubstitutionShowsBothOutputs) {
  ExplainInput input = worked_example();
  input.substitutes["weights"] = matrix(3, 3, {0, .5, .5, 0, 1, 0, 0, .9, .1});
  const std::string text = to_text(explain(input));
  for (const char* part :
       {"weights [3, 3] (substituted)", "true weights [3, 3]", "true output [3, 3]", "2.00000 7.00000 1.50000",
        "2.00000 8.00000 0.00000", "2.00000 7.80000 0.30000", "1.93662 6.68311 1.59507"}) {
    EXPECT_TRUE(has_line_with(text, part)) << part;
  }
}

TEST(ExplainText, ColorsByRoleOnlyOnRequest) {
  const Explanation explanation = explain(worked_example());
  const std::string plain = to_text(explanation), colored = to_text(explanation, {.color = true});
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(colored.find("\x1b[31mquery"), std::string::npos);
  EXPECT_NE(colored.find("\x1b[33mkey"), std::string::npos);
  EXPECT_NE(colored.find("\x1b[35mvalue"), std::string::npos);
  std::string stripped;
  for (std::size_t i = 0; i < colored.size(); ++i) {
    if (colored[i] == '\x1b') {
      i = colored.find('m', i);
    } else {
      stripped += colored[i];
    }
  }
  EXPECT_EQ(stripped, plain);
}

TEST(ExplainText, StaysReadableForLargeInputs) {
  const std::string text = to_text(explain(drawn({.inputs = 200, .dim = 90})));
  EXPECT_LE(test::longest_line(text), 98u);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 500);
  EXPECT_TRUE(has_line_with(text, "output 1 "));
  EXPECT_TRUE(has_line_with(text, "output 200 "));
  EXPECT_TRUE(has_line_with(text, " ... "));
}

TEST(ExplainText, NoLineIsWiderThanAsked) {
  for (const std::int64_t dim : {1, 2, 3, 5, 6, 7, 9, 11, 12, 16, 30}) {
    for (const Score::Kind score : {Score::Kind::scaled_dot, Score::Kind::additive, Score::Kind::concat}) {
      ExplainInput input;
      input.score = score;
      input.causal = Align::bottom_right;
      generate_missing(input, {.inputs = dim, .dim = dim, .init = Init::normal});
      for (const int width : {60, 98}) {
        EXPECT_LE(test::longest_line(to_text(explain(input), {.width = width})), static_cast<std::size_t>(width))
            << dim;
      }
    }
  }
}

TEST(ExplainText, EveryOutputRowStandsOnOneLine) {
  const ExplainInput input = drawn({.inputs = 5, .dim = 4, .value_dim = 9});
  const Explanation explanation = explain(input);
  std::istringstream lines(to_text(explanation));
  int rows = 0;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("  output [5, 9]") == 0) inside = true;
    if (!inside || line.find("  output ") != 0 || line.find('[') != std::string::npos) continue;
    std::istringstream words(line.substr(line.find("output ") + 8));
    double value = 0;
    for (int column = 0; column < 9; ++column) {
      ASSERT_TRUE(words >> value) << line;
      EXPECT_NEAR(value, explanation.output.view().at<double>({rows, column}), 5.1e-6);
    }
    ++rows;
  }
  EXPECT_EQ(rows, 5);
}

TEST(ExplainText, DrawsPictures) {
  ExplainInput input;
  input.inputs = matrix(2, 4, {0, 1, 1, 0, 1, 1, 1, 0});
  input.picture = {2, 2};
  input.labels = {"left", "right"};
  generate_missing(input, {});
  const std::string text = to_text(explain(input));
  EXPECT_TRUE(has_line_with(text, "  left    right\n    @@    @@@@\n  @@      @@\n")) << text;
  EXPECT_TRUE(has_line_with(text, "left attends most to "));
}

TEST(ExplainText, SaysWhyAnInputLooksAtNobody) {
  ExplainInput input = worked_example();
  input.mask = matrix(3, 3, {0, 0, 0, 1, 0, 0, 1, 0, 1});
  input.inputs = matrix(3, 4, {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, std::nan("")});
  const std::string text = to_text(explain(input));
  EXPECT_TRUE(has_line_with(text, "input 1 attends to nobody: everything is hidden from it"));
  EXPECT_TRUE(has_line_with(text, "input 2 attends most to input 1"));
  EXPECT_TRUE(has_line_with(text, "input 3 has weights that are not numbers (NaN)"));
  EXPECT_TRUE(has_line_with(text, "Largest difference from the reference, in plain loops: nan"));
}

TEST(ExplainText, ZeroHasNoSign) {
  ExplainInput input = worked_example();
  input.substitutes["weights"] = matrix(3, 3, {-4e-6, -0.0, 0.5, 0, 1, 0, -1e-9, 0.9, 0.1});
  input.substitutes["value"] = matrix(3, 3, {-4e-6, 1.5, -0.0, 1.5, 2, 3, 1, 2, 3});
  const std::string text = to_text(explain(input));
  EXPECT_TRUE(has_line_with(text, " 0.00000"));
  EXPECT_EQ(text.find("-0.00000"), std::string::npos) << text;
  EXPECT_EQ(text.find("-0 "), std::string::npos) << text;
}

// Every number of the five heads' matrices, in the rows that they belong to.
TEST(ExplainText, NothingIsShortenedInFull) {
  for (const std::int64_t heads : {0, 5}) {
    ExplainInput input;
    input.heads = heads;
    input.full = true;
    generate_missing(input, {.inputs = 25, .dim = 40});
    const Explanation explanation = explain(input);
    const auto squeezed = [](std::string text) {
      for (std::size_t at; (at = text.find("  ")) != std::string::npos;) text.erase(at, 1);
      return text;
    };
    const std::string text = squeezed(to_text(explanation, {.full = true}));
    EXPECT_EQ(text.find("..."), std::string::npos);
    EXPECT_EQ(text.find("--json"), std::string::npos);
    EXPECT_NE(squeezed(to_text(explanation)).find("..."), std::string::npos);
    for (const char* name : {"inputs", "w_query", "query", "weights"}) {
      const Tensor values = test::quantity(explanation, name);
      const TensorView all = values.view();
      const TensorView rows = all.reshape({all.element_count() / all.size(-1), all.size(-1)});
      for (std::int64_t i = 0; i < rows.size(0); ++i) {
        std::string row;
        for (std::int64_t j = 0; j < rows.size(1); ++j) row += fmt::format(" {:.5f}", rows.at<double>({i, j}));
        EXPECT_NE(text.find(row), std::string::npos) << name << row;
      }
    }
  }
}

TEST(ExplainText, OneInputAlone) {
  ExplainInput input = worked_example();
  input.inputs = matrix(1, 4, {1, 0, 1, 0});
  input.tutorial = false;
  EXPECT_TRUE(has_line_with(to_text(explain(input)), "output 1  1.00000 2.00000 3.00000"));  // its own value
}

// By hand, as the tutorials have it: exp(2), exp(4), exp(4), and a tie said as one.
TEST(ExplainText, SoftmaxIsWrittenOutAndTiesAreTies) {
  const std::string text = to_text(explain(worked_example()), {.width = 120});
  EXPECT_TRUE(test::has_line_with(text, "sum = exp(2) + exp(4) + exp(4) = 116.58536\n")) << text;
  EXPECT_TRUE(test::has_line_with(text, "54.59815 / 116.58536 = 0.46831  for key 2\n")) << text;
  EXPECT_LT(text.find("exp(2) + exp(4)"), text.find("log_sum_exp of input 1"));
  EXPECT_TRUE(test::has_line_with(
      text, "input 1 attends most to input 2 (0.46831) and equally to input 3 (0.46831), then to input 1 (0.06338)\n"))
      << text;
  EXPECT_LT(text.find("a score is a logit at once"), text.find("logits of input 1"));
  ExplainInput huge = worked_example();  // sums that have no room are left out
  huge.scale = 1000;
  EXPECT_EQ(to_text(explain(huge)).find("sum = exp("), std::string::npos);
}

}  // namespace
}  // namespace qkv
