// Attention over long inputs: cells of the pyramid against means of the whole matrix in plain loops, kept numbers
// against its rows, and what is refused.
#include "qkv/explain/attention_maps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "attention/attention_testing.h"
#include "explain/json_schema.h"
#include "explain/map_bytes.h"
#include "explain/pyramid.h"
#include "explain/report_page.h"
#include "io/files_for_test.h"
#include "qkv/explain/report.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

std::string refusal(const Dims& rows, std::int64_t keys, const AttentionMapsOptions& options) {
  try {
    AttentionMaps(rows, keys, Dtype::f32, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was refused";
}

// Of the numbers whose row is in part `row` of `parts` halved `level` times, in plain loops.
double mean_of_cell(const TensorView& matrix, Dims parts, int level, std::int64_t row, std::int64_t column) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < matrix.size(0); ++i) {
    for (std::int64_t j = 0; j < matrix.size(1); ++j) {
      if ((i * parts[0] / matrix.size(0)) >> level != row || (j * parts[1] / matrix.size(1)) >> level != column)
        continue;
      sum += matrix.at<double>({i, j});
      ++count;
    }
  }
  return sum / static_cast<double>(count);
}

Tensor block_means(const TensorView& matrix, std::int64_t rows, std::int64_t columns) {
  Tensor blocks = Tensor::zeros({rows, columns}, Dtype::f64), counts = Tensor::zeros({rows, columns}, Dtype::f64);
  for (std::int64_t i = 0; i < matrix.size(0); ++i) {
    for (std::int64_t j = 0; j < matrix.size(1); ++j) {
      const std::int64_t at = i * rows / matrix.size(0) * columns + j * columns / matrix.size(1);
      blocks.data<double>()[at] += matrix.at<double>({i, j});
      counts.data<double>()[at] += 1;
    }
  }
  for (std::int64_t at = 0; at < rows * columns; ++at) blocks.data<double>()[at] /= counts.data<double>()[at];
  return blocks;
}

TEST(Pyramid, CellsAreMeansOfAllNumbersUnderThem) {
  Random random(3);
  for (const auto& [queries, keys, rows, columns] : {std::tuple(100, 131, 67, 131), std::tuple(90, 200, 90, 129),
                                                     std::tuple(3, 70, 2, 65), std::tuple(5, 5, 5, 5)}) {
    const Tensor matrix = testing::normal(random, {queries, keys}, Dtype::f64);
    const std::vector<PyramidLevel> levels = pyramid_of(block_means(matrix, rows, columns), queries, keys);
    std::int64_t cells = 0;
    for (std::size_t l = 0; l < levels.size(); ++l) {
      const PyramidLevel& level = levels[l];
      cells += level.rows * level.columns;
      ASSERT_EQ(std::ssize(level.means), level.rows * level.columns);
      EXPECT_EQ(level.rows, (rows + (1 << l) - 1) >> l);
      EXPECT_EQ(level.columns, (columns + (1 << l) - 1) >> l);
      for (std::int64_t i = 0; i < level.rows; i += 3) {
        for (std::int64_t j = 0; j < level.columns; j += 5) {
          EXPECT_NEAR(level.means[static_cast<std::size_t>(i * level.columns + j)],
                      mean_of_cell(matrix, {rows, columns}, static_cast<int>(l), i, j), 1e-13);
        }
      }
    }
    EXPECT_LE(std::max(levels.back().rows, levels.back().columns), 64);
    EXPECT_EQ(cells, pyramid_cells(rows, columns));
  }
}

// round(254 sqrt(mean / largest)).
TEST(Pyramid, BytesByHand) {
  const PyramidLevel level{.rows = 1, .columns = 5, .means = {0, 0.5, 0.125, std::nan(""), 0.5 / (254.0 * 254)}};
  EXPECT_EQ(largest_mean(level), 0.5);
  EXPECT_EQ(bytes_of(level, 0.5), std::string("\0\xfe\x7f\xff\x01", 5));
  EXPECT_EQ(bytes_of({.rows = 1, .columns = 1, .means = {0}}, 0), std::string(1, '\0'));
}

// RFC 4648, section 10.
TEST(Base64, KnownTexts) {
  for (const auto& [bytes, text] : {std::pair("", ""), std::pair("f", "Zg=="), std::pair("fo", "Zm8="),
                                    std::pair("foo", "Zm9v"), std::pair("foobar", "Zm9vYmFy")}) {
    std::string written;
    append_base64(written, bytes);
    EXPECT_EQ(written, text);
    EXPECT_EQ(base64_size(std::string_view(bytes).size()), written.size());
  }
}

struct Run {
  AttentionMaps maps;
  Tensor weights;  // all of them, f64
};

Run run(const Dims& rows, std::int64_t keys, const AttentionMapsOptions& options) {
  Random random(5);
  Dims query = rows, key = rows;
  query.push_back(8);
  key[key.size() - 1] = keys;
  key.push_back(8);
  const Tensor q = testing::normal(random, query, Dtype::f32), k = testing::normal(random, key, Dtype::f32),
               v = testing::normal(random, key, Dtype::f32);
  Run made{AttentionMaps(rows, keys, Dtype::f32, options), {}};
  Dims pairs = rows;
  pairs.push_back(keys);
  Tensor weights = Tensor::uninitialized(pairs, Dtype::f32);
  AttentionExtras extras = made.maps.extras();
  extras.weights = weights;
  attention(q, k, v, {}, extras);
  made.weights = convert(weights, Dtype::f64);
  return made;
}

TEST(AttentionMaps, KeepWhatTheWeightsAre) {
  const auto [maps, weights] = run({2, 3, 100}, 150, {.keep = {{1, 2}, {0, 1}}, .keep_rows = {0, 99}});
  EXPECT_FALSE(maps.whole());
  for (const MapHead& head : maps.keep()) {
    const TensorView all = weights.view().select(0, head.batch).select(0, head.head);
    const Tensor blocks = convert(maps.blocks(head), Dtype::f64), rows = convert(maps.rows(head), Dtype::f64);
    ASSERT_EQ(blocks.shape(), (Dims{100, 150}));  // so few numbers are blocks of their own
    EXPECT_LE(testing::difference(blocks.view(), all), 1e-6);
    ASSERT_EQ(rows.shape(), (Dims{2, 150}));
    EXPECT_EQ(rows.view().at<double>({1, 7}), all.at<double>({99, 7}));
    ASSERT_EQ(maps.top_keys(head).shape(), (Dims{100, 32}));
    for (const std::int64_t query : {0, 41}) {
      std::vector<std::int64_t> order(150);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, {}, [&](std::int64_t j) { return std::pair(-all.at<double>({query, j}), j); });
      for (std::int64_t n = 0; n < 32; ++n) {
        EXPECT_EQ(maps.top_keys(head).at<std::int64_t>({query, n}), order[static_cast<std::size_t>(n)]);
      }
    }
  }
  EXPECT_THROW(static_cast<void>(maps.rows({0, 0})), std::invalid_argument);
}

TEST(AttentionMaps, ShortInputsAreKeptWhole) {
  const auto [maps, weights] = run({2, 64}, 64, {});
  EXPECT_TRUE(maps.whole());
  for (const std::int64_t head : {0, 1}) {
    const Tensor rows = convert(maps.rows({0, head}), Dtype::f64);
    EXPECT_EQ(testing::difference(rows.view(), weights.view().select(0, head)), 0);
  }
  EXPECT_FALSE(AttentionMaps({2, 64}, 65, Dtype::f32).whole());
}

// As many cells as there is room for, and never more bytes than that.
TEST(AttentionMaps, GridFollowsTheRoom) {
  for (const std::size_t bytes : {200'000u, 3'000'000u, 19'000'000u}) {
    const AttentionMaps maps({4, 10'000}, 10'000, Dtype::f32, {.bytes = bytes});
    const std::int64_t grid = maps.blocks({}).size(0);
    EXPECT_LE(4 * base64_size(static_cast<std::size_t>(pyramid_cells(grid, grid))), bytes);
    if (grid < 4096) {
      EXPECT_GT(4 * base64_size(static_cast<std::size_t>(pyramid_cells(grid + 1, grid + 1))), bytes);
    }
  }
}

TEST(AttentionMaps, JsonIsWhatTheSchemaSays) {
  const test::JsonSchema schema(Json::parse(test::slurp(QKV_SOURCE_DIR "/docs/explain.schema.json")));
  const auto [maps, weights] = run({1, 80}, 600, {.keep = {{0, 0}}, .keep_rows = {3}});
  const Json json = Json::parse(to_json(maps));
  EXPECT_EQ(schema.check(json), "");
  EXPECT_EQ(json["queries"], 80);
  const Json& level = json["heads"][0]["levels"][0];
  EXPECT_EQ(level["tiles"].size(), 2u);  // of 512 and 88 columns
  EXPECT_EQ(test::inflated(test::from_base64(level["tiles"][0]), 80 * 512).size(), 80u * 512);
  EXPECT_EQ(json["heads"][0]["top"]["keys"].get<std::string>().size(), base64_size(80 * 32 * 4));
  EXPECT_EQ(json["heads"][0]["rows"][0]["query"], 3);
  EXPECT_EQ(schema.check(Json::parse(to_json(run({3}, 2, {}).maps))), "");
  Report report;
  report.add(maps);
  EXPECT_NE(report.html("Maps", "qkv attend").find("The largest mean of 80 x 600 equal parts"), std::string::npos);
}

TEST(AttentionMaps, RefusesWhatIsNotThere) {
  const Dims rows = {2, 3, 100};
  EXPECT_EQ(refusal(rows, 100, {.keep = {{2, 0}}}),
            "explain: there is no head 2.0 to keep; the first number is 0 to 1, the second 0 to 2");
  EXPECT_EQ(refusal(rows, 100, {.keep = {{0, 0}}, .keep_rows = {100}}),
            "explain: there is no row 100 to keep; the rows are 0 to 99");
  EXPECT_EQ(refusal(rows, 100, {.keep = std::vector<MapHead>(5)}),
            "explain: 5 heads are more than the 4 that can be kept");
  EXPECT_EQ(refusal(rows, 100, {.keep = {{0, 0}}, .keep_rows = std::vector<std::int64_t>(17)}),
            "explain: 17 rows are more than the 16 that can be kept");
  EXPECT_EQ(refusal({8, 40'000}, 40'000, {.keep = {{0, 0}, {0, 1}, {0, 2}}}),
            "explain: 3 kept heads with 0 rows take 41.0 MB, a report has room for 19.0 MB: 1 of them fit");
  EXPECT_EQ(refusal({0, 5}, 5, {}), "explain: there is nothing to draw: 5 queries, 5 keys");
}

}  // namespace
}  // namespace qkv
