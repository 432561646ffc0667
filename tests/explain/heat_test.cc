// Heat maps: means of blocks by hand, scales, maps of a terminal, and pictures as SVG.
#include "explain/heat.h"

#include <gtest/gtest.h>

#include <cmath>

#include "explain/example.h"
#include "explain/matrix_text.h"
#include "explain/svg.h"
#include "explain/text_parts.h"
#include "qkv/explain/explain_model.h"

namespace qkv {
namespace {

using test::matrix;

HeatCells cells_of(const Tensor& values, std::int64_t rows, std::int64_t columns) {
  return heat_cells(values, rows, columns);
}

std::vector<std::string> lines_of(const Quantity& quantity, HeatStyle style, std::size_t width) {
  std::vector<std::string> lines;
  for (const TextBox& box : heat_boxes_of(quantity, style, {.width = width})) {
    for (const TextLine& line : box.lines) lines.push_back(line.text);
  }
  return lines;
}

TEST(Heat, CellsAreMeansOfBlocks) {
  const HeatCells cells = cells_of(matrix(3, 5, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}), 2, 3);
  EXPECT_EQ(cells.rows, 2);
  EXPECT_EQ(cells.columns, 2);
  ASSERT_EQ(cells.values.shape(), (Dims{2, 3}));
  const std::vector<double> expected = {4, 6, 7.5, 11.5, 13.5, 15};
  EXPECT_EQ(std::vector<double>(cells.values.data<double>(), cells.values.data<double>() + 6), expected);
  EXPECT_FALSE(cells_of(matrix(1, 1, {5}), 16, 16).are_means());
}

TEST(Heat, ScalesOfWeightsAndOfOtherNumbers) {
  const HeatCells own = cells_of(matrix(1, 2, {0.25, 0.5}), 2, 2);
  const HeatScale weights(own, Role::weight), scores(own, Role::score);
  EXPECT_EQ(weights.share(0.25), 0.5);  // the root
  EXPECT_EQ(weights.text(), "");
  EXPECT_EQ(scores.share(0.25), 0);
  EXPECT_EQ(scores.share(0.5), 1);
  EXPECT_EQ(scores.text(), "0.25000 to 0.50000");
  const HeatScale means(cells_of(matrix(1, 4, {0, 0.5, 0, 0}), 1, 2), Role::weight);
  EXPECT_EQ(means.share(0.25), 1);
  EXPECT_EQ(means.text(), "0 to 0.25000");
  const HeatScale broken(cells_of(matrix(1, 2, {std::nan(""), -test::kInfinity}), 2, 2), Role::score);
  EXPECT_EQ(broken.share(0), 0);
}

TEST(Heat, LettersWithNamesOfRowsAndColumns) {
  const Quantity quantity{.name = "weights",
                          .role = Role::weight,
                          .values = matrix(2, 3, {0, 0.25, 1, std::nan(""), -test::kInfinity, test::kInfinity}),
                          .rows = {"a", "long name"},
                          .columns = {"x", "yz", "w"}};
  EXPECT_EQ(lines_of(quantity, HeatStyle::letters, 40),
            (std::vector<std::string>{"weights",           //
                                      "            y   ",  //
                                      "          x z w ",  //
                                      "a           ++@@",  //
                                      "long name ??xx^^"}));
}

// 6 columns of room 16 take 2 characters each, so that a line shows a row; 16 of them 1, so that it shows two.
TEST(Heat, HalfBlocksIn256Colours) {
  const std::string block = "\xe2\x96\x80";
  const Quantity wide{.name = "w", .role = Role::weight, .values = matrix(1, 8, {0, 0, 0, 0, 1, 1, 1, 1}), .rows = {}};
  // #171c27 is nearest to grey 234 (#1c1c1c), #dcf7ff to 195 (#d7ffff).
  EXPECT_EQ(lines_of(wide, HeatStyle::colors, 16)[1],
            "\x1b[38;5;234;48;5;234m" + block + block + block + block + block + block + block + block +
                "\x1b[38;5;195;48;5;195m" + block + block + block + block + block + block + block + block + "\x1b[0m");
  Quantity tall{.name = "w", .role = Role::weight, .values = Tensor::zeros({3, 16}, Dtype::f64), .rows = {}};
  tall.values.data<double>()[16] = 1;  // of row 1
  const std::vector<std::string> lines = lines_of(tall, HeatStyle::colors, 16);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[1].starts_with("\x1b[38;5;234;48;5;195m" + block + "\x1b[38;5;234;48;5;234m" + block)) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("\x1b[0;38;5;234m" + block + block)) << lines[2];
}

TEST(Heat, WideMatricesAreMeansWithinTheWidth) {
  Quantity quantity{
      .name = "weights", .role = Role::weight, .values = Tensor::zeros({300, 300}, Dtype::f64), .rows = {}};
  for (const HeatStyle style : {HeatStyle::letters, HeatStyle::colors}) {
    for (const TextBox& box : heat_boxes_of(quantity, style, {.width = 60})) {
      EXPECT_LE(box.width, 60u);
      EXPECT_EQ(box.lines[0].text, "weights, means of 3 x 5, 0 to 0");
      EXPECT_EQ(box.lines.size(), style == HeatStyle::letters ? 101u : 51u);
    }
  }
}

TEST(Heat, MatricesOfTheStepsAreMaps) {
  const std::string text = to_text(explain(worked_example()), {.heat = true});
  for (const char* line : {"From least to most", "weights\n", "query 1 ::****", "logits, 2 to 16"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_EQ(text.find("query [3, 3]"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(to_text(explain(worked_example()), {.heat = true, .colors_256 = true}), text);  // no colour was wanted
}

TEST(Heat, TextTakesColumns) {
  EXPECT_EQ(columns_of("a\xcc\x81\xe4\xb8\xad"), 3u);  // a with an accent, and a wide character
  EXPECT_EQ(fitted("a\xcc\x81\xe4\xb8\xad", 2), "a\xcc\x81 ");
  EXPECT_EQ(Svg::cut("abcdef", 4), "abc\xe2\x80\xa6");
  EXPECT_EQ(Svg::cut("abcd", 4), "abcd");
}

TEST(Svg, TextIsNoMarkup) {
  HeadTrace trace;
  trace.title = "<script>alert(1)</script> & \"quoted\"";
  trace.tokens = {"<b>", "&amp;\x01"};
  trace.keys = {"'", "\xef\xbf\xbf", "\xff"};
  trace.weights = matrix(2, 3, {0, 0.25, 0.75, 1, 0, std::nan("")});
  const std::string svg = to_svg(trace);
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* part : {">&lt;b&gt;<", ">&amp;amp;\xef\xbf\xbd<", ">&#39;<", ">\xef\xbf\xbd<", ">.75<", ">nan<",
                           "fill=\"#7c8597\" d=\"M2 1h1v1h-1z\"",
                           "<title>&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quoted&quot;</title>"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part << "\n" << svg;
  }
  EXPECT_EQ(svg.find("<script"), std::string::npos);
}

TEST(Svg, DrawsTheStepsOrOne) {
  const Explanation explanation = explain(worked_example());
  const std::string all = to_svg(explanation), one = to_svg(explanation, 5);
  for (const char* part : {">Step 1. Prepare inputs<", ">Step 8. Repeat for the rest<", ">W weights [3, 3]<",
                           ">0.98201<", ">query 3<", ">key 2<"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part;
  }
  EXPECT_NE(one.find(">Step 5. Softmax<"), std::string::npos);
  EXPECT_EQ(one.find(">Step 4"), std::string::npos);
  EXPECT_THROW(to_svg(explanation, 9), std::invalid_argument);
  EXPECT_THROW(to_svg(explanation, -1), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
