// Maps of attention over long inputs, of a call and of the heads of a model: cells against means of all weights in
// plain loops, what is kept against the weights themselves, what is refused, and the memory that they take.
#include "attention/attention_testing.h"
#include "explain/example.h"
#include "explain/json_schema.h"
#include "explain/map_bytes.h"
#include "explain/measure/pyramid.h"
#include "explain/show/report_page.h"
#include "io/base64.h"
#include "memory_for_test.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/report.h"
#include "sanitizers.h"

namespace qkv {
namespace {

using test::at;
using test::Json;
using test::refusal;
using Rows = std::vector<std::int64_t>;

// round(254 sqrt(mean / largest)).
TEST(Pyramid, BytesByHand) {
  const PyramidLevel level{.rows = 1, .columns = 5, .means = {0, 0.5, 0.125, std::nan(""), 0.5 / (254.0 * 254)}};
  EXPECT_EQ(largest_mean(level), 0.5);
  EXPECT_EQ(bytes_of(level, 0.5), std::string("\0\xfe\x7f\xff\x01", 5));
  EXPECT_EQ(bytes_of({.rows = 1, .columns = 1, .means = {0}}, 0), std::string(1, '\0'));
}

// The bytes of a level, its tiles put together.
Tensor cells_of(const Json& level) {
  constexpr std::int64_t kTile = 512;
  const std::int64_t rows = level.at("rows"), columns = level.at("columns"), across = (columns + kTile - 1) / kTile;
  std::vector<std::string> tiles;
  for (const std::string tile : level.at("tiles"))
    tiles.push_back(test::inflated(test::from_base64(tile), kTile * kTile));
  EXPECT_EQ(std::ssize(tiles), across * ((rows + kTile - 1) / kTile));
  return test::filled(rows, columns, [&](auto i, auto j) {
    const std::int64_t left = j / kTile * kTile, width = std::min(kTile, columns - left);
    const std::string& tile = tiles[static_cast<std::size_t>(i / kTile * across + j / kTile)];
    return static_cast<unsigned char>(tile.at(static_cast<std::size_t>(i % kTile * width + j - left)));
  });
}

// Each level joins 2 x 2 parts of the one before: a cell is the mean of all weights under it, which is a byte as above,
// of means that are rounded to f32.
void expect_levels(const Json& levels, const TensorView& weights) {
  const std::int64_t rows = levels.at(0).at("rows"), columns = levels.at(0).at("columns");
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const Tensor cells = cells_of(levels.at(l));
    ASSERT_EQ(cells.shape(), (Dims{((rows - 1) >> l) + 1, ((columns - 1) >> l) + 1}));
    Tensor means = Tensor::zeros(cells.shape(), Dtype::f64), counts = means;
    for (std::int64_t i = 0; i < weights.size(0); ++i) {
      for (std::int64_t j = 0; j < weights.size(1); ++j) {
        const Dims cell{i * rows / weights.size(0) >> l, j * columns / weights.size(1) >> l};
        means.view().at<double>(cell) += at(weights, i, j);
        ++counts.view().at<double>(cell);
      }
    }
    for (std::int64_t n = 0; n < means.element_count(); ++n) means.data<double>()[n] /= counts.data<double>()[n];
    const double largest = levels.at(l).at("largest");
    EXPECT_NEAR(largest, testing::largest(means), 1e-6 * largest);
    const Tensor expected = test::filled(means.size(0), means.size(1),
                                         [&](auto i, auto j) { return 254 * std::sqrt(at(means, i, j) / largest); });
    EXPECT_LE(testing::difference(cells, expected), 0.51) << "level " << l;
  }
  EXPECT_LE(std::max(levels.back().at("rows"), levels.back().at("columns")), 64);
}

// Of a head that is kept: the strongest keys of each query, and whole rows.
void expect_kept(const Json& map, const TensorView& weights, const Rows& rows) {
  const std::int64_t keys = weights.size(1), top = std::min<std::int64_t>(keys, 32);
  const auto top_keys = test::numbers_in<std::int32_t>(map.at("top").at("keys"));
  const auto top_weights = test::numbers_in<float>(map.at("top").at("weights"));
  ASSERT_EQ(map.at("top").at("count"), top);
  ASSERT_EQ(std::ssize(top_keys), weights.size(0) * top);
  std::size_t n = 0;
  for (std::int64_t i = 0; i < weights.size(0); ++i) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(keys));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::int32_t j) { return std::pair(-at(weights, i, j), j); });
    order.resize(static_cast<std::size_t>(top));
    for (const std::int32_t key : order) {
      const bool is_none = at(weights, i, key) == 0;
      ASSERT_EQ(top_keys[n], is_none ? -1 : key);
      ASSERT_FLOAT_EQ(top_weights[n++], static_cast<float>(at(weights, i, key)));
    }
  }
  ASSERT_EQ(map.at("rows").size(), rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    EXPECT_EQ(map.at("rows").at(r).at("query"), rows[r]);
    const auto row = test::numbers_in<float>(map.at("rows").at(r).at("weights"));
    ASSERT_EQ(std::ssize(row), keys);
    for (std::int64_t j = 0; j < keys; ++j) ASSERT_EQ(row[static_cast<std::size_t>(j)], at(weights, rows[r], j));
  }
}

struct Call {
  AttentionMaps maps;
  Tensor weights;  // all of them, [batch, heads, queries, keys], f64
};

Call call(const Dims& rows, std::int64_t keys, const AttentionMapsOptions& options) {
  Random random(5);
  const Tensor q = testing::normal(random, {rows[0], rows[1], rows[2], 8}),
               k = testing::normal(random, {rows[0], rows[1], keys, 8});
  Call made{AttentionMaps(rows, keys, Dtype::f32, options), {}};
  Tensor weights = Tensor::uninitialized({rows[0], rows[1], rows[2], keys});
  AttentionExtras extras = made.maps.extras();
  extras.weights = weights;
  attention(q, k, k, {}, extras);
  made.weights = convert(weights, Dtype::f64);
  return made;
}

// So few numbers are blocks of their own; those of short inputs are kept whole.
TEST(AttentionMaps, KeepWhatTheWeightsAre) {
  const struct {
    Dims rows;
    std::int64_t keys;
    AttentionMapsOptions options;
  } rows[] = {{{2, 3, 100}, 150, {.keep = {{1, 2}, {0, 1}}, .keep_rows = {0, 99}}},
              {{1, 1, 80}, 600, {.keep = {{0, 0}}, .keep_rows = {3}}},
              {{1, 2, 64}, 65, {}},
              {{1, 2, 64}, 64, {}},
              {{2, 1, 3}, 2, {}}};
  for (const auto& row : rows) {
    SCOPED_TRACE(to_string(row.rows));
    const auto [maps, weights] = call(row.rows, row.keys, row.options);
    const Json json = Json::parse(to_json(maps));
    test::expect_valid(json, "maps");
    const bool whole = row.rows[2] <= 64 && row.keys <= 64;
    EXPECT_EQ(json.at("whole"), whole);
    EXPECT_EQ(json.at("queries"), row.rows[2]);
    EXPECT_EQ(json.at("heads").size(), static_cast<std::size_t>(row.rows[0] * row.rows[1]));
    for (const Json& map : json.at("heads")) {
      const MapHead head{map.at("batch"), map.at("head")};
      const TensorView all = weights.view().select(0, head.batch).select(0, head.head);
      ASSERT_EQ(maps.blocks(head).shape(), all.shape());
      expect_levels(map.at("levels"), all);
      const bool kept = std::ranges::find(row.options.keep, head) != row.options.keep.end();
      ASSERT_EQ(map.at("top").is_null(), !kept);
      if (kept) expect_kept(map, all, row.options.keep_rows);
      if (!whole) continue;
      ASSERT_EQ(map.at("rows").size(), static_cast<std::size_t>(row.rows[2]));
      EXPECT_EQ(testing::difference(maps.rows(head), all), 0);
    }
  }
  EXPECT_THROW(static_cast<void>(call({2, 1, 70}, 70, {.keep = {{1, 0}}, .keep_rows = {0}}).maps.rows({0, 0})),
               std::invalid_argument);
  // As many cells as there is room for, but not more than that.
  EXPECT_EQ(AttentionMaps({1, 10'000}, 10'000, Dtype::f32, {.bytes = 40'000'000}).blocks({}).shape(),
            (Dims{4096, 4096}));
  Report report;
  report.add(call({1, 1, 80}, 600, {}).maps);
  report.add(call({1, 1, 2}, 2, {}).maps);
  const std::string html = report.html("Maps", "qkv attend");
  EXPECT_TRUE(test::holds(html, "The largest mean of 80 x 600 equal parts of the 80 x 600 weights"));
  EXPECT_TRUE(test::holds(html, "<caption>weights, head 0.0</caption>"));
}

TEST(AttentionMaps, RefusesWhatIsNotThere) {
  const auto refused = [](const AttentionMapsOptions& options, const Dims& rows = {2, 3, 100}) {
    return refusal([&] { AttentionMaps(rows, rows[rows.size() - 1], Dtype::f32, options); });
  };
  EXPECT_EQ(refused({.keep = {{2, 0}}}),
            "explain: there is no head 2.0 to keep; the first number is 0 to 1, the second 0 to 2");
  EXPECT_EQ(refused({.keep = {{0, 3}}}),
            "explain: there is no head 0.3 to keep; the first number is 0 to 1, the second 0 to 2");
  EXPECT_EQ(refused({.keep = {{0, 0}}, .keep_rows = {100}}),
            "explain: there is no row 100 to keep; the rows are 0 to 99");
  EXPECT_EQ(refused({.keep = std::vector<MapHead>(5)}), "explain: 5 heads are more than the 4 that can be kept");
  EXPECT_EQ(refused({.keep = {{}}, .keep_rows = Rows(17)}), "explain: 17 rows are more than the 16 that can be kept");
  EXPECT_EQ(refused({.keep = {{0, 0}, {0, 1}, {0, 2}}}, {8, 40'000}),
            "explain: 3 kept heads with 0 rows take 41.0 MB, a report has room for 19.0 MB: 1 of them fit");
  EXPECT_EQ(refused({}, {0, 5}), "explain: nothing to draw: 5 queries, 5 keys");
}

// A model of self-attention "own", and of "cross" to another sequence, whose weights are drawn at random, or all are
// the first key's.
struct LongInput : Explainable {
  LongInput(std::int64_t tokens, std::int64_t others, std::int64_t layers, std::int64_t heads) {
    for (const auto& [name, count] : {std::pair("own", tokens), std::pair("cross", others)}) {
      const auto size = static_cast<std::size_t>(count);
      AttentionSite site{.name = name, .after = ".", .layers = layers, .heads = heads, .model_dim = heads};
      site.before = site.name + ".";
      site.keys = attentions_.sequences.size();
      attentions_.sites.push_back(site);
      attentions_.sequences.push_back(
          {.name = name, .tokens = test::Strings(size), .special = std::vector<std::uint8_t>(size)});
    }
  }

  const Attentions& attentions() const override { return attentions_; }

  // [queries, heads, keys], rows of which sum to 1, as all of a layer has them.
  Tensor weights(std::size_t site, std::int64_t layer) const {
    const std::int64_t queries = std::ssize(attentions_.sequences[0].tokens),
                       keys = std::ssize(attentions_.sequences[site].tokens);
    Random random(7, 100 * site + static_cast<std::uint64_t>(layer));
    Tensor all = Tensor::zeros({queries, attentions_.sites[site].heads, keys});
    for (float* row = all.data<float>(); row < all.data<float>() + all.element_count(); row += keys) {
      float sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        const double drawn = first_key_only ? static_cast<double>(j == 0) : random.uniform();
        row[j] = static_cast<float>(drawn * drawn * drawn);
        sum += row[j];
      }
      for (std::int64_t j = 0; j < keys; ++j) row[j] /= sum;
    }
    if (changed != 0) all.data<float>()[5] = changed;
    return all;
  }
  Tensor weights(const HeadIndex& head) const {
    return convert(weights(head.site, head.layer).view().select(1, head.head), Dtype::f64);
  }

  void run(Observer& observer) const override {
    for (std::size_t s = 0; s < attentions_.sites.size(); ++s) {
      const AttentionSite& own = attentions_.sites[s];
      for (std::int64_t layer = 0; layer < own.layers; ++layer) {
        const Tensor all = weights(s, layer);
        observer.receive(own.scope(layer) + "query", Tensor::zeros({1, own.heads, 1}));
        observer.receive(own.scope(layer) + "value", Tensor::zeros({all.size(2), own.heads, 1}));
        observer.receive(own.scope(layer) + "weights", all);
      }
    }
  }

  Attentions attentions_{.input = "many tokens"};
  float changed = 0;  // a weight of query 0, head 0 of every layer
  bool first_key_only = false;
};

HeadSurvey survey_of(const LongInput& input, const HeadMapsOptions& options) {
  return survey_heads(input, {.maps = options});
}

// Every map of a survey, and those that have none.
void expect_maps(const LongInput& input, const HeadMapsOptions& options) {
  const HeadSurvey survey = survey_of(input, options);
  const Json json = Json::parse(to_json(survey));
  test::expect_valid(json, "heads");
  for (const HeadSurvey::Entry& entry : survey.heads) {
    const auto number =
        static_cast<std::size_t>(entry.index.layer * input.attentions_.sites[0].heads + entry.index.head);
    const Json& own = json.at("attentions").at(entry.index.site).at("all").at(number);
    const Tensor all = input.weights(entry.index);
    const bool is_long = all.size(0) > 64 || all.size(1) > 64;
    ASSERT_EQ(entry.map.has_value(), is_long);
    ASSERT_EQ(own.contains("map"), is_long);
    EXPECT_EQ(entry.weights.element_count(), is_long ? 0 : all.element_count());
    if (!is_long) continue;
    EXPECT_TRUE(own.at("weights").is_null());
    const Json& map = own.at("map");
    EXPECT_EQ(map.at("levels").at(0).at("rows") == all.size(0), options.bytes > 60'000);
    expect_levels(map.at("levels"), all);
    const bool kept = std::ranges::find(options.keep, entry.index) != options.keep.end();
    ASSERT_EQ(map.at("top").is_null() && map.at("rows").empty(), !kept);
    if (kept) expect_kept(map, all, options.keep_rows);
  }
}

TEST(SurveyMaps, CellsAreMeansAndKeptHeadsHaveTheirKeysAndRows) {
  expect_maps({65, 1, 1, 1}, {});
  expect_maps({150, 131, 1, 2}, {});
  expect_maps({150, 131, 1, 2}, {.bytes = 60'000});
  expect_maps({1, 65, 1, 1}, {});
  expect_maps({600, 70, 1, 1}, {});
  expect_maps({70, 40, 2, 3}, {.keep = {{1, 2, 0}, {0, 0, 1}}, .keep_rows = {69, 0}});
  expect_maps({65, 3, 1, 1}, {.keep = {{0, 0, 1}}});  // of fewer than 32 keys there are all
  LongInput first(65, 65, 1, 1);
  first.first_key_only = true;
  expect_maps(first, {.keep = {{0, 0, 0}}});
}

// Before deflating, all maps and what is kept take no more than is said, and one cell more would not fit.
TEST(SurveyMaps, GridFollowsTheRoom) {
  const LongInput input(300, 300, 2, 3);
  // Beside them 12 times 300 lengths of values of 20 characters; 4 bytes each of 32 keys and their weights, and a row.
  const std::size_t beside = 12 * 300 * 20 + 2 * io::base64_size(300 * 32 * 4) + io::base64_size(300 * 4);
  for (const std::size_t bytes : {400'000u, 700'000u}) {
    const HeadSurvey survey = survey_of(input, {.keep = {{0, 1, 1}}, .keep_rows = {3}, .bytes = bytes});
    const std::int64_t grid = survey.heads[0].map->blocks.size(0);
    const auto cells = [](std::int64_t n) {
      return 12 * io::base64_size(static_cast<std::size_t>(pyramid_cells(n, n)));
    };
    EXPECT_LT(grid, 300);
    EXPECT_LE(cells(grid) + beside, bytes);
    EXPECT_GT(cells(grid + 1) + beside, bytes);
  }
}

TEST(SurveyMaps, WeightsThatAreNoNumbersAreShownAsSuch) {
  LongInput input(70, 1, 1, 1);
  input.changed = std::numeric_limits<float>::quiet_NaN();
  const Json json = Json::parse(to_json(survey_of(input, {.keep = {{0, 0, 0}}})));
  const Json& levels = json.at("attentions").at(0).at("all").at(0).at("map").at("levels");
  for (const auto& [level, column] : {std::pair(0, 5), std::pair(1, 2)}) {
    const std::vector<double> bytes = test::values_of(cells_of(levels.at(static_cast<std::size_t>(level))));
    EXPECT_EQ(std::ranges::count(bytes, 255), 1);
    EXPECT_EQ(bytes[static_cast<std::size_t>(column)], 255);
  }
}

TEST(SurveyMaps, ReportHoldsMapsAndSaysWhatHasNoTable) {
  Report report;
  report.add(survey_heads(LongInput(65, 2, 1, 1), {.keep_weights = true, .maps = HeadMapsOptions{}}));
  const std::string html = report.html("Long", "");
  EXPECT_TRUE(test::holds(html, "<p>The 65 x 65 weights of each head are in no table.</p>"));
  EXPECT_TRUE(test::holds(html, "\"weights\":null,\"map\":{\"tile\":512,"));
}

TEST(SurveyMaps, RefusesWhatIsNotThere) {
  const LongInput input(70, 80, 2, 3), longer(30'000, 1, 2, 3);
  const auto refused = [](const LongInput& own, const HeadMapsOptions& options) {
    return refusal([&] { survey_of(own, options); });
  };
  EXPECT_EQ(refused(input, {.keep = {{2, 0, 0}}}),
            "explain: there is no head own.2.0 to keep; the layers are 0 to 1, the heads 0 to 2");
  EXPECT_EQ(refused(input, {.keep = {{0, 3, 1}}}),
            "explain: there is no head cross.0.3 to keep; the layers are 0 to 1, the heads 0 to 2");
  EXPECT_EQ(refused(input, {.keep = {{-1, 0, 0}}}),
            "explain: there is no head own.-1.0 to keep; the layers are 0 to 1, the heads 0 to 2");
  EXPECT_EQ(refused(input, {.keep = {{0, 0, 1}}, .keep_rows = {70}}),
            "explain: there is no row 70 of head cross.0.0 to keep; the rows are 0 to 69");
  EXPECT_EQ(refused(input, {.keep = std::vector<HeadIndex>(5)}),
            "explain: 5 heads are more than the 4 that can be kept");
  EXPECT_EQ(refused(input, {.keep = {{}}, .keep_rows = Rows(17)}),
            "explain: 17 rows are more than the 16 that can be kept");
  // In base64 each 2 x 160,000 bytes of rows and 2 x 5,120,000 of keys and weights; lengths of values take 3.6 MB.
  EXPECT_EQ(refused(longer, {.keep = {{0, 0, 0}, {1, 2, 0}}, .keep_rows = {0, 1}}),
            "explain: 2 kept heads with 2 rows take 21.2 MB, a report has room for 15.4 MB: 1 of them fit");
}

#ifndef QKV_SANITIZED  // sanitizers need memory of their own
// 10 layers of 8 heads of 256 tokens are 5 million weights, 42 MB as f64. A layer's are 2 MB, one head's half of that
// as f64, all maps 4 MB.
TEST(SurveyMaps, TakeTheMemoryOfALayerAndTheMaps) {
  LongInput input(256, 1, 10, 8);
  input.first_key_only = true;
  const auto survey = [&] { return survey_of(input, {.keep = {{0, 0, 0}}, .bytes = 4'000'000}); };
  EXPECT_LT(test::cost(survey).peak, 20 * test::kMebibyte);
}
#endif

}  // namespace
}  // namespace qkv
