// Texts and drawings: golden files of those of chosen numbers, and what holds for all: width, colours, nothing left
// out.
#include "attention/attention_testing.h"
#include "explain/chosen.h"
#include "explain/show/heat.h"
#include "explain/show/matrix_text.h"
#include "qkv/error.h"
#include "qkv/threads.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

using test::holds;
using test::matrix;
using test::Strings;

ExplainInput drawn(const SyntheticInput& choice, std::int64_t heads = 0) {
  ExplainInput input;
  input.heads = heads;
  generate_missing(input, choice);
  return input;
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

HeadSurvey survey_between() {
  HeadSurvey survey = test::chosen_survey();
  survey.attentions.sequences.push_back({.name = "other", .caption = "Other:  ", .tokens = {"x", "y"}});
  survey.attentions.sites[0] = {.name = "en_de", .title = "Between", .caption = "a to b", .layers = 3, .keys = 1};
  survey.heads[3] = {{1, 0}, {.entropy = 0.1}, HeadPattern::alignment};
  return survey;
}

// Each word of the output leans on one source word; few words have bars, many have lists.
HeadSurvey survey_of_words(std::int64_t sources) {
  HeadSurvey survey = survey_between();
  Strings words;
  for (std::int64_t i = 0; i < sources; ++i) words.push_back(fmt::format("w{}", i % 6));
  survey.attentions.alignment = Alignment{
      .source_text = "a b", .output_text = "c d", .source = {words, {}}, .output = {{"c", "d"}, {}}, .cut = 3};
  survey.word_alignment = test::filled(2, sources, [](auto i, auto j) {
    return i == j ? 0.75 : i + 1 == j ? 0.1875 : 0.0625;
  });
  return survey;
}

Tensor from(double first, std::int64_t rows, std::int64_t columns) {
  return test::filled(rows, columns, [=](auto i, auto j) { return first + static_cast<double>(i * columns + j); });
}

HeadTrace long_trace() {
  HeadTrace trace = test::chosen_trace();
  trace.keys.clear();
  for (int i = 0; i < 30; ++i) trace.keys.push_back(fmt::format("k{}", i));
  trace.key = trace.value = from(1000, 30, 9);
  trace.scores = trace.logits = from(2000, 3, 30);
  trace.weights = trace.value_norms = from(3000, 3, 30);
  return trace;
}

// More rows, columns and matrices than are shown.
Explanation long_steps() {
  Strings rows;
  for (int i = 0; i < 30; ++i) rows.push_back(fmt::format("{:x<{}}", i, std::max(2, 20 - i)));
  Explanation explanation;
  const auto add = [&](int number, const std::vector<Quantity>& all) {
    explanation.sections.push_back({number, "Matrices", {{{}, {}, all}}});
  };
  add(0, {{"few", Role::none, from(0, 20, 9), {}, true}});
  add(1, {{"many", Role::query, from(0, 30, 40), rows, false},
          {"small", Role::output, from(0, 21, 2), {}, true},
          {"cube", Role::key, test::counted({5, 2, 2}, Dtype::f64), {}, false},
          {"huge", Role::score, matrix(1, 2, {1e8, -0.5}), {}, false},
          {"tiny", Role::score, matrix(1, 2, {1e-4, -1e-9}), {}, false}});
  rows.resize(17);
  add(2, {{"tall", Role::key, from(0, 17, 1), rows, false}, {"wide", Role::value, from(0, 1, 17), {}, false, rows}});
  return explanation;
}

HeadTrace hostile_trace() {
  HeadTrace trace;
  trace.title = "<script>alert(1)</script> & \"quoted\"";
  trace.tokens = {"<b>", "&amp;\x01"};
  trace.keys = {"'", "\xef\xbf\xbf", "\xff"};
  trace.weights = matrix(2, 3, {0, 0.25, 0.75, 1, 0, std::nan("")});
  return trace;
}

TEST(ExplainGolden, TextsAndDrawings) {
  HeadTrace broken = test::chosen_trace(), additive = test::chosen_trace(), hidden = test::chosen_trace();
  broken.weights.data<double>()[0] = std::nan("");
  hidden.logits.data<double>()[1] = -test::kInfinity;
  for (std::int64_t j = 3; j < 6; ++j) {  // everything, from the second token
    hidden.logits.data<double>()[j] = -test::kInfinity;
    hidden.weights.data<double>()[j] = 0;
  }
  additive.score = Score::Kind::additive;
  additive.bias = matrix(3, 3, {-0.0, -4e-6, 1, 2, 3, 4, 5, 6, 7});
  TokenMeasures plain = test::chosen_measures(), many = test::chosen_measures();
  plain.log_probability.reset();
  many.heads.clear();
  many.keys[0].by = {{Measure::rollout, std::vector<double>(25, 0.04), {}}};
  many.attentions.sequences[0].tokens.resize(25, "t");
  HeadSurvey maps = survey_between();
  maps.heads[0].weights = matrix(2, 2, {0.25, 0.75, 1, 0});
  const Explanation worked = explain(worked_example());
  const std::pair<const char*, std::string> rows[] = {
      {"worked_heat.txt", to_text(worked, {.heat = true})},
      {"heads_heat.txt", to_text(explain(drawn({.inputs = 2, .init = Init::normal}, 2)), {.width = 60, .heat = true})},
      {"worked_colors.txt", to_text(worked, {.color = true, .width = 120})},
      {"long.txt", to_text(long_steps())},
      {"long_narrow.txt", to_text(long_steps(), {.width = 50})},
      {"long.svg", to_svg(long_steps(), 2)},
      {"worked.svg", to_svg(worked)},
      {"worked_step.svg", to_svg(worked, 5)},
      {"head.txt", to_text(test::chosen_trace(), 2)},
      {"head_broken.txt", to_text(broken)},
      {"head_hidden.txt", to_text(hidden, 1)},
      {"head_additive.txt", to_text(additive, 0)},
      {"head_colors.txt", to_text(test::chosen_trace(), 2, {.color = true})},
      {"head_heat.txt", to_text(test::chosen_trace(), 2, {.heat = true})},
      {"head_long.txt", to_text(long_trace(), 2)},
      {"head_hostile.svg", to_svg(hostile_trace())},
      {"survey.txt", to_text(test::chosen_survey())},
      {"survey_colors.txt", to_text(test::chosen_survey(), {.color = true})},
      {"survey_between.txt", to_text(survey_between(), {.width = 120})},
      {"survey_heat.txt", to_text(maps, {.heat = true})},
      {"words.txt", words_to_text(survey_of_words(3))},
      {"words_many.txt", words_to_text(survey_of_words(7))},
      {"token.txt", to_text(test::chosen_measures())},
      {"token_plain.txt", to_text(plain, {.color = true})},
      {"token_many.txt", to_text(many)},
      {"picture.txt", to_text(test::chosen_picture(), test::chosen_view())},
      {"picture_colors.txt", to_text(test::chosen_picture(), test::chosen_view(), {.color = true, .width = 98})},
      {"picture.svg", to_svg(test::chosen_picture(), test::chosen_view())},
  };
  for (const auto& [name, text] : rows) test::expect_golden(name, text);
  EXPECT_FALSE(holds(to_svg(hostile_trace()), "<script"));
  for (const int step : {9, -1}) EXPECT_THROW(to_svg(worked, step), std::invalid_argument);
  EXPECT_THROW(words_to_text(test::chosen_survey()), std::invalid_argument);
}

// Once a line and once a row of numbers: a user who has seen enough does not wait for the rest.
TEST(ExplainText, AsksForAStop) {
  set_threads(1);  // questions are counted by thread
  ExplainInput input = drawn({.inputs = 50, .dim = 3});
  const std::int64_t shortened = test::questions_of([&] { explain(input); });
  input.full = true;
  Explanation explanation;
  EXPECT_GE(test::questions_of([&] { explanation = explain(input); }) - shortened, 200);  // lines
  EXPECT_GE(test::questions_of([&] { to_text(explanation, {.full = true}); }), 300);
  EXPECT_GE(test::questions_of([&] { to_json(explanation); }), 300);
  std::stop_source source;
  source.request_stop();
  explanation.stop = input.stop = source.get_token();
  EXPECT_THROW(to_text(explanation), Stopped);
  EXPECT_THROW(to_json(explanation), Stopped);
  EXPECT_THROW(explain(input), Stopped);
  set_threads(0);
}

// Of logits whose sum of exponentials has no room in a number it is left out.
TEST(ExplainText, ColorsAreAllThatColorAdds) {
  ExplainInput huge = worked_example();
  huge.scale = 1000;
  EXPECT_FALSE(holds(to_text(explain(huge)), "sum = exp("));
  const Explanation explanation = explain(worked_example());
  const std::string plain = to_text(explanation), colored = to_text(explanation, {.color = true});
  EXPECT_FALSE(holds(plain, "\x1b"));
  EXPECT_TRUE(holds(colored, "\x1b[31mquery"));
  EXPECT_EQ(std::regex_replace(colored, std::regex("\x1b\\[[0-9;]*m"), ""), plain);
  EXPECT_EQ(to_text(explanation, {.heat = true, .colors_256 = true}), to_text(explanation, {.heat = true}));
}

TEST(ExplainText, NoLineIsWiderThanAsked) {
  for (const std::int64_t dim : {1, 2, 3, 5, 6, 7, 9, 11, 12, 16, 30}) {
    for (const Score::Kind score : {Score::Kind::scaled_dot, Score::Kind::additive, Score::Kind::concat}) {
      ExplainInput input;
      input.score = score;
      input.causal = Align::bottom_right;
      generate_missing(input, {.inputs = dim, .dim = dim, .init = Init::normal});
      const Explanation explanation = explain(input);
      for (const int width : {60, 98}) {
        EXPECT_LE(longest_line(to_text(explanation, {.width = width})), static_cast<std::size_t>(width)) << dim;
      }
    }
  }
  const std::string text = to_text(explain(drawn({.inputs = 200, .dim = 90})));
  EXPECT_LE(longest_line(text), 98u);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 500);
  for (const char* part : {"output 1 ", "output 200 ", " ... "}) EXPECT_TRUE(holds(text, part)) << part;
}

// Every number of the matrices, in the rows that they belong to: more rows, columns and heads than are shown else.
TEST(ExplainText, NothingIsShortenedInFull) {
  for (const std::int64_t heads : {0, 5}) {
    ExplainInput input = drawn({.inputs = 21, .dim = 20}, heads);
    input.full = true;
    const Explanation explanation = explain(input);
    const auto squeezed = [](const std::string& text) { return std::regex_replace(text, std::regex(" +"), " "); };
    const std::string text = squeezed(to_text(explanation, {.full = true}));
    EXPECT_FALSE(holds(text, "...") || holds(text, "--json"));
    EXPECT_TRUE(holds(to_text(explanation), "..."));
    for (const Quantity& one : test::quantities(explanation)) {
      const TensorView values = one.values;
      if (values.rank() == 1 || one.name == "weighted_values" || format_for(one).decimals == 0) continue;
      const TensorView rows = values.reshape({values.element_count() / values.size(-1), values.size(-1)});
      for (std::int64_t i = 0; i < rows.size(0); ++i) {
        std::string row;
        for (std::int64_t j = 0; j < rows.size(1); ++j) row += fmt::format(" {:.5f}", test::at(rows, i, j));
        EXPECT_TRUE(holds(text, row)) << one.name << row;
      }
    }
  }
  const std::string head = to_text(long_trace(), 2, {.full = true});
  EXPECT_FALSE(holds(head, "..."));
  for (int i = 0; i < 90; ++i) EXPECT_TRUE(holds(head, fmt::format(" {:.3f}", 3000.0 + i))) << i;
  for (int i = 60; i < 90; ++i) EXPECT_TRUE(holds(head, fmt::format(" {:.5f}", 2000.0 + i))) << i;
  for (int i = 0; i < 270; ++i) EXPECT_TRUE(holds(head, std::to_string(1000 + i))) << i;
}

TEST(Heat, CellsAreMeansOfBlocks) {
  const Tensor values = test::filled(3, 5, [](auto i, auto j) { return static_cast<double>(5 * i + j + 1); });
  const HeatCells cells = heat_cells(values, 2, 3);
  EXPECT_EQ(cells.rows, 2);
  EXPECT_EQ(cells.columns, 2);
  test::expect_near(cells.values, matrix(2, 3, {4, 6, 7.5, 11.5, 13.5, 15}), 0);
  EXPECT_FALSE(heat_cells(matrix(1, 1, {5}), 16, 16).are_means());
}

// A weight has the root of its share.
TEST(Heat, ScalesOfWeightsAndOfOtherNumbers) {
  const HeatCells own = heat_cells(matrix(1, 2, {0.25, 0.5}), 2, 2),
                  means = heat_cells(matrix(1, 4, {0, 0.5, 0, 0}), 1, 2);
  const HeatCells broken = heat_cells(matrix(1, 2, {std::nan(""), -test::kInfinity}), 2, 2);
  const struct {
    HeatScale scale;
    double value, share;
    std::string text;
  } rows[] = {{{own, Role::weight}, 0.25, 0.5, ""},
              {{own, Role::score}, 0.25, 0, "0.25000 to 0.50000"},
              {{own, Role::score}, 0.5, 1, "0.25000 to 0.50000"},
              {{means, Role::weight}, 0.25, 1, "0 to 0.25000"},
              {{broken, Role::score}, 0, 0, "0 to 1"}};
  for (const auto& row : rows) {
    EXPECT_EQ(row.scale.share(row.value), row.share) << "row " << &row - rows;
    EXPECT_EQ(row.scale.text(), row.text) << "row " << &row - rows;
  }
}

// Letters with names of rows and columns: 0, 0.25 and 1 are " ", "+" and "@". 8 columns of room 16 take 2 characters
// each, so that a line shows a row; 16 of them 1, so that it shows two. #171c27 is nearest to grey 234 (#1c1c1c),
// #dcf7ff to 195 (#d7ffff). 300 columns are means within the width.
TEST(ExplainGolden, HeatMaps) {
  std::string text;
  const auto draw = [&](const Tensor& values, HeatStyle style, std::size_t width, const Strings& rows = {},
                        const Strings& columns = {}) {
    const Quantity map{.name = "w", .role = Role::weight, .values = values, .rows = rows, .columns = columns};
    for (const TextBox& box : heat_boxes_of(map, style, {.width = width})) {
      EXPECT_LE(box.width, width);
      for (const TextLine& line : box.lines) text += line.text + "|\n";
    }
  };
  const Tensor strange = matrix(2, 3, {0, 0.25, 1, std::nan(""), -test::kInfinity, test::kInfinity});
  const Tensor wide = test::filled(300, 300, [](auto i, auto j) { return i == j; });
  // An accent takes no column, a wide character two.
  draw(strange, HeatStyle::letters, 40, {"a\xcc\x81\xe4\xb8\xad", "long name"}, {"x", "yz", "w"});
  draw(strange, HeatStyle::colors, 40, {"a", "long name"}, {"x", "yz", "w"});
  draw(matrix(1, 8, {0, 0, 0, 0, 1, 1, 1, 1}), HeatStyle::colors, 16);
  draw(test::filled(3, 16, [](auto i, auto j) { return i == 1 && j == 0; }), HeatStyle::colors, 16);
  draw(wide, HeatStyle::letters, 60);
  draw(wide, HeatStyle::colors, 60);
  test::expect_golden("heat.txt", text);
}

}  // namespace
}  // namespace qkv
