// Texts and drawings: golden files of those of chosen numbers, and what holds for all: width, colours, nothing left
// out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "attention/attention_testing.h"
#include "core/stop.h"
#include "explain/chosen.h"
#include "explain/heat.h"
#include "explain/heat_text.h"
#include "explain/svg.h"
#include "explain/text_units.h"
#include "qkv/error.h"
#include "qkv/threads.h"

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
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  return longest;
}

HeadSurvey survey_between() {
  HeadSurvey survey = test::chosen_survey();
  survey.attentions.sequences.push_back({.name = "other", .caption = "Other:  ", .tokens = {"x", "y"}});
  survey.attentions.sites[0] = {.name = "en_de", .title = "Between", .caption = "a to b", .layers = 3, .keys = 1};
  survey.heads[3] = {{1, 0}, {.entropy = 0.1}, HeadPattern::alignment};
  return survey;
}

// Each target word leans on one source word; few words have bars, many have lists.
HeadSurvey survey_of_words(std::int64_t sources) {
  HeadSurvey survey = survey_between();
  Strings words;
  for (std::int64_t i = 0; i < sources; ++i) words.push_back(fmt::format("w{}", i % 6));
  survey.attentions.alignment = Alignment{
      .source_text = "a b", .target_text = "c d", .source = {words, {}}, .target = {{"c", "d"}, {}}, .cut = 3};
  survey.word_alignment = test::filled(2, sources, [](auto i, auto j) {
    return i == j ? 0.75 : i + 1 == j ? 0.1875 : 0.0625;
  });
  return survey;
}

HeadTrace long_trace() {
  HeadTrace trace = test::chosen_trace();
  const auto counted = [](std::int64_t rows, std::int64_t columns, double first) {
    return test::filled(rows, columns, [=](auto i, auto j) { return first + static_cast<double>(i * columns + j); });
  };
  trace.keys.clear();
  for (int i = 0; i < 30; ++i) trace.keys.push_back(fmt::format("k{}", i));
  trace.key = trace.value = counted(30, 9, 1000);
  trace.scores = trace.logits = counted(3, 30, 2000);
  trace.weights = trace.value_norms = counted(3, 30, 3000);
  return trace;
}

HeadTrace hostile_trace() {
  HeadTrace trace;
  trace.title = "<script>alert(1)</script> & \"quoted\"";
  trace.tokens = {"<b>", "&amp;\x01"};
  trace.keys = {"'", "\xef\xbf\xbf", "\xff"};
  trace.weights = matrix(2, 3, {0, 0.25, 0.75, 1, 0, std::nan("")});
  return trace;
}

TEST(Golden, TextsAndDrawings) {
  HeadTrace broken = test::chosen_trace(), additive = test::chosen_trace(), hidden = test::chosen_trace();
  broken.weights.data<double>()[0] = std::nan("");
  hidden.logits.data<double>()[1] = -test::kInfinity;
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
      {"worked.svg", to_svg(worked)},
      {"worked_step.svg", to_svg(worked, 5)},
      {"head.txt", to_text(test::chosen_trace(), 2)},
      {"head_list.txt", to_text(test::chosen_trace())},
      {"head_broken.txt", to_text(broken)},
      {"head_hidden.txt", to_text(hidden)},
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
  explanation.stop = input.stop = source.get_token();
  EXPECT_THROW(to_text(explanation), Stopped);
  EXPECT_THROW(to_json(explanation), Stopped);
  EXPECT_THROW(explain(input), Stopped);
  set_threads(0);
}

TEST(ExplainText, ColorsAreAllThatColorAdds) {
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
    for (const char* name : {"inputs", "w_query", "query", "weights"}) {
      const Tensor values = test::quantity(explanation, name);
      const TensorView rows = values.view().reshape({values.element_count() / values.size(-1), values.size(-1)});
      for (std::int64_t i = 0; i < rows.size(0); ++i) {
        std::string row;
        for (std::int64_t j = 0; j < rows.size(1); ++j) row += fmt::format(" {:.5f}", test::at(rows, i, j));
        EXPECT_TRUE(holds(text, row)) << name << row;
      }
    }
  }
  const std::string head = to_text(long_trace(), 2, {.full = true});
  EXPECT_FALSE(holds(head, "..."));
  for (int i = 0; i < 90; ++i) EXPECT_TRUE(holds(head, fmt::format(" {:.3f}", 3000.0 + i))) << i;
  for (int i = 60; i < 90; ++i) EXPECT_TRUE(holds(head, fmt::format(" {:.5f}", 2000.0 + i))) << i;
  for (int i = 0; i < 270; ++i) EXPECT_TRUE(holds(head, std::to_string(1000 + i))) << i;
}

// Sums that have no room in a number are left out.
TEST(ExplainText, HugeLogitsHaveNoSumOfExponentials) {
  ExplainInput huge = worked_example();
  huge.scale = 1000;
  EXPECT_FALSE(holds(to_text(explain(huge)), "sum = exp("));
}

HeatCells cells_of(const Tensor& values, std::int64_t rows, std::int64_t columns) {
  return heat_cells(values, rows, columns);
}

TEST(Heat, CellsAreMeansOfBlocks) {
  const HeatCells cells = cells_of(matrix(3, 5, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}), 2, 3);
  EXPECT_EQ(cells.rows, 2);
  EXPECT_EQ(cells.columns, 2);
  test::expect_near(cells.values, matrix(2, 3, {4, 6, 7.5, 11.5, 13.5, 15}), 0);
  EXPECT_FALSE(cells_of(matrix(1, 1, {5}), 16, 16).are_means());
}

// A weight has the root of its share.
TEST(Heat, ScalesOfWeightsAndOfOtherNumbers) {
  const HeatCells own = cells_of(matrix(1, 2, {0.25, 0.5}), 2, 2), means = cells_of(matrix(1, 4, {0, 0.5, 0, 0}), 1, 2);
  const HeatCells broken = cells_of(matrix(1, 2, {std::nan(""), -test::kInfinity}), 2, 2);
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

Strings lines_of(const Quantity& quantity, HeatStyle style, std::size_t width) {
  Strings lines;
  for (const TextBox& box : heat_boxes_of(quantity, style, {.width = width})) {
    for (const TextLine& line : box.lines) lines.push_back(line.text);
    EXPECT_LE(box.width, width);
  }
  return lines;
}

Quantity map_of(const Tensor& values) { return {.name = "w", .role = Role::weight, .values = values, .rows = {}}; }

TEST(Heat, LettersWithNamesOfRowsAndColumns) {
  Quantity quantity = map_of(matrix(2, 3, {0, 0.25, 1, std::nan(""), -test::kInfinity, test::kInfinity}));
  quantity.rows = {"a", "long name"};
  quantity.columns = {"x", "yz", "w"};
  EXPECT_EQ(lines_of(quantity, HeatStyle::letters, 40), (Strings{"w",                 //
                                                                 "            y   ",  //
                                                                 "          x z w ",  //
                                                                 "a           ++@@",  //
                                                                 "long name ??xx^^"}));
}

// 8 columns of room 16 take 2 characters each, so that a line shows a row; 16 of them 1, so that it shows two.
TEST(Heat, HalfBlocksIn256Colours) {
  std::string block = "\xe2\x96\x80", eight;
  for (int i = 0; i < 8; ++i) eight += block;
  // #171c27 is nearest to grey 234 (#1c1c1c), #dcf7ff to 195 (#d7ffff).
  EXPECT_EQ(lines_of(map_of(matrix(1, 8, {0, 0, 0, 0, 1, 1, 1, 1})), HeatStyle::colors, 16)[1],
            "\x1b[38;5;234;48;5;234m" + eight + "\x1b[38;5;195;48;5;195m" + eight + "\x1b[0m");
  const Tensor tall = test::filled(3, 16, [](auto i, auto j) { return i == 1 && j == 0; });
  const Strings lines = lines_of(map_of(tall), HeatStyle::colors, 16);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[1].starts_with("\x1b[38;5;234;48;5;195m" + block + "\x1b[38;5;234;48;5;234m" + block)) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("\x1b[0;38;5;234m" + block + block)) << lines[2];
  const Tensor wide = Tensor::zeros({300, 300}, Dtype::f64);  // means within the width
  for (const auto& [style, count] : {std::pair(HeatStyle::letters, 101u), std::pair(HeatStyle::colors, 51u)}) {
    const Strings means = lines_of(map_of(wide), style, 60);
    EXPECT_EQ(means.at(0), "w, means of 3 x 5, 0 to 0");
    EXPECT_EQ(means.size(), count);
  }
}

TEST(Heat, TextTakesColumns) {
  EXPECT_EQ(columns_of("a\xcc\x81\xe4\xb8\xad"), 3u);  // a with an accent, and a wide character
  EXPECT_EQ(fitted("a\xcc\x81\xe4\xb8\xad", 2), "a\xcc\x81 ");
  EXPECT_EQ(Svg::cut("abcdef", 4), "abc\xe2\x80\xa6");
  EXPECT_EQ(Svg::cut("abcd", 4), "abcd");
}

}  // namespace
}  // namespace qkv
