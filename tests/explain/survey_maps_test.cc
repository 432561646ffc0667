// Maps of the heads of a model that read many tokens: their cells against means of all weights in plain double loops,
// what is kept of heads against the weights themselves, what is refused, and the memory that they take.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "explain/json_schema.h"
#include "explain/map_bytes.h"
#include "explain/report_page.h"
#include "io/files_for_test.h"
#include "memory_for_test.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/report.h"
#include "qkv/random.h"
#include "sanitizers.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

float cubed(double x) { return static_cast<float>(x * x * x); }

// A model of self-attention "own", and of "cross" to another sequence, whose weights are drawn at random.
class LongInput : public Explainable {
 public:
  LongInput(std::int64_t tokens, std::int64_t others, std::int64_t layers, std::int64_t heads) {
    const auto sequence = [](const std::string& name, std::int64_t count) {
      return AttentionSequence{.name = name,
                               .tokens = std::vector<std::string>(static_cast<std::size_t>(count), name),
                               .special = std::vector<std::uint8_t>(static_cast<std::size_t>(count))};
    };
    attentions_.sequences = {sequence("t", tokens), sequence("s", others)};
    attentions_.input = "many tokens";
    for (const std::size_t keys : {0u, 1u}) {
      const std::string name = keys == 0 ? "own" : "cross";
      attentions_.sites.push_back({.name = name,
                                   .title = name,
                                   .before = name + ".",
                                   .after = ".",
                                   .layers = layers,
                                   .heads = heads,
                                   .model_dim = heads,
                                   .queries = 0,
                                   .keys = keys});
    }
  }

  const Attentions& attentions() const override { return attentions_; }

  // [queries, heads, keys], rows of which sum to 1, as all of a layer has them.
  Tensor weights(std::size_t site, std::int64_t layer) const {
    const AttentionSite& own = attentions_.sites[site];
    const std::int64_t queries = std::ssize(attentions_.sequences[own.queries].tokens),
                       keys = std::ssize(attentions_.sequences[own.keys].tokens);
    Random random(7, 100 * site + static_cast<std::uint64_t>(layer));
    Tensor all = Tensor::uninitialized({queries, own.heads, keys});
    for (std::int64_t row = 0; row < queries * own.heads; ++row) {
      float* weight = all.data<float>() + row * keys;
      float sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) sum += weight[j] = cubed(random.uniform());
      for (std::int64_t j = 0; j < keys; ++j) weight[j] /= sum;
    }
    if (changed_ != 0) all.data<float>()[5] = changed_;
    return all;
  }

  Tensor weights(const HeadIndex& head) const {
    return convert(weights(head.site, head.layer).view().select(1, head.head), Dtype::f64);
  }

  void run(Observer& observer) const override {
    for (std::size_t s = 0; s < attentions_.sites.size(); ++s) {
      const AttentionSite& own = attentions_.sites[s];
      for (std::int64_t layer = 0; layer < own.layers; ++layer) {
        const auto keys = std::ssize(attentions_.sequences[own.keys].tokens);
        observer.receive(own.scope(layer) + "query", Tensor::zeros({1, own.heads, 1}));
        observer.receive(own.scope(layer) + "value", Tensor::zeros({keys, own.heads, 1}));
        observer.receive(own.scope(layer) + "weights", weights(s, layer));
      }
    }
  }

  Attentions attentions_{};
  float changed_ = 0;  // a weight of query 0, head 0 of every layer
};

// Of a level that joins 2^level by 2^level parts: the mean of all weights under a cell.
std::vector<double> means_of(const TensorView& weights, std::int64_t rows, std::int64_t columns, std::size_t level,
                             std::int64_t width) {
  std::vector<double> sums, counts;
  for (std::int64_t i = 0; i < weights.size(0); ++i) {
    for (std::int64_t j = 0; j < weights.size(1); ++j) {
      const auto at = static_cast<std::size_t>((i * rows / weights.size(0) >> level) * width +
                                               (j * columns / weights.size(1) >> level));
      if (at >= sums.size()) sums.resize(at + 1), counts.resize(at + 1);
      sums[at] += weights.at<double>({i, j});
      ++counts[at];
    }
  }
  for (std::size_t at = 0; at < sums.size(); ++at) sums[at] /= counts[at];
  return sums;
}

// The bytes of a level, its tiles put together.
std::vector<int> bytes_of(const Json& level, std::int64_t tile) {
  const std::int64_t rows = level.at("rows"), columns = level.at("columns");
  std::vector<int> bytes(static_cast<std::size_t>(rows * columns));
  std::size_t number = 0;
  for (std::int64_t top = 0; top < rows; top += tile) {
    for (std::int64_t left = 0; left < columns; left += tile) {
      const std::int64_t height = std::min(tile, rows - top), width = std::min(tile, columns - left);
      const std::string own =
          test::inflated(test::from_base64(level.at("tiles").at(number++)), static_cast<std::size_t>(height * width));
      for (std::int64_t i = 0; i < height; ++i) {
        for (std::int64_t j = 0; j < width; ++j) {
          bytes[static_cast<std::size_t>((top + i) * columns + left + j)] =
              static_cast<unsigned char>(own.at(static_cast<std::size_t>(i * width + j)));
        }
      }
    }
  }
  EXPECT_EQ(level.at("tiles").size(), number);
  return bytes;
}

// byte = round(254 sqrt(mean / largest)), of means that are rounded to f32.
void expect_levels(const Json& map, const TensorView& weights) {
  const std::int64_t rows = map.at("levels").at(0).at("rows"), columns = map.at("levels").at(0).at("columns");
  for (std::size_t l = 0; l < map.at("levels").size(); ++l) {
    const Json& level = map.at("levels").at(l);
    const std::vector<double> means = means_of(weights, rows, columns, l, level.at("columns"));
    const std::vector<int> bytes = bytes_of(level, map.at("tile"));
    ASSERT_EQ(bytes.size(), means.size());
    const double largest = level.at("largest");
    EXPECT_NEAR(largest, *std::ranges::max_element(means), 1e-7 * largest);
    for (std::size_t at = 0; at < means.size(); ++at) {
      ASSERT_LE(std::abs(bytes[at] - 254 * std::sqrt(means[at] / largest)), 0.501) << "level " << l << ", cell " << at;
    }
  }
}

const Json& entry_in(const Json& json, const HeadIndex& head, std::int64_t heads) {
  return json.at("attentions").at(head.site).at("all").at(static_cast<std::size_t>(head.layer * heads + head.head));
}

TEST(SurveyMaps, CellsAreMeansOfTheWeights) {
  const test::JsonSchema schema(Json::parse(test::slurp(QKV_SOURCE_DIR "/docs/explain.schema.json")));
  struct Size {
    std::int64_t tokens, others, heads;
    std::size_t bytes;
  };
  for (const auto& [tokens, others, heads, bytes] :
       {Size{65, 1, 1, 19'000'000}, Size{150, 131, 2, 19'000'000}, Size{150, 131, 2, 60'000},
        Size{1, 65, 1, 19'000'000}, Size{600, 70, 1, 19'000'000}}) {
    SCOPED_TRACE(std::to_string(tokens) + " x " + std::to_string(others));
    const LongInput input(tokens, others, 1, heads);
    const HeadSurvey survey = survey_heads(input, {.maps = HeadMapsOptions{.bytes = bytes}});
    const Json json = Json::parse(to_json(survey));
    EXPECT_EQ(schema.check(json), "");
    for (const HeadSurvey::Entry& entry : survey.heads) {
      const TensorView weights = entry.weights;
      const Tensor all = input.weights(entry.index);
      const Json& own = entry_in(json, entry.index, heads);
      if (all.size(0) <= 64 && all.size(1) <= 64) {
        EXPECT_FALSE(entry.map || own.contains("map"));
        EXPECT_EQ(entry.weights.shape(), all.shape());
        continue;
      }
      ASSERT_TRUE(entry.map);
      EXPECT_EQ(weights.element_count(), 0);
      EXPECT_TRUE(own.at("weights").is_null());
      const Json& finest = own.at("map").at("levels").at(0);
      EXPECT_EQ(finest.at("rows") == all.size(0), bytes > 60'000);
      expect_levels(own.at("map"), all);
      EXPECT_TRUE(own.at("map").at("top").is_null() && own.at("map").at("rows").empty());
    }
  }
}

// Before deflating, all maps and what is kept take no more than is said, and one cell more would not fit.
TEST(SurveyMaps, GridFollowsTheRoom) {
  const LongInput input(300, 300, 2, 3);
  for (const std::size_t bytes : {400'000u, 700'000u}) {
    const HeadSurvey survey =
        survey_heads(input, {.maps = HeadMapsOptions{.keep = {{0, 1, 1}}, .keep_rows = {3}, .bytes = bytes}});
    std::size_t cells = 0, kept = 0;
    const Json json = Json::parse(to_json(survey));
    for (const HeadSurvey::Entry& entry : survey.heads) {
      const Json& map = entry_in(json, entry.index, 3).at("map");
      std::size_t own = 0;
      for (const Json& level : map.at("levels")) {
        own += level.at("rows").get<std::size_t>() * level.at("columns").get<std::size_t>();
      }
      cells += base64_size(own);
      if (map.at("top").is_null()) continue;
      kept +=
          map.at("top").at("keys").get<std::string>().size() + map.at("top").at("weights").get<std::string>().size();
      kept += map.at("rows").at(0).at("weights").get<std::string>().size();
    }
    constexpr std::size_t kLengths = 12 * 300 * 20;  // the lengths of values beside them
    EXPECT_LE(cells + kept + kLengths, bytes);
    const std::int64_t grid = survey.heads[0].map->blocks.size(0);
    EXPECT_LT(grid, 300);
    EXPECT_GT(static_cast<double>(cells) * (grid + 2) * (grid + 2) / (grid * grid) + kept + kLengths, bytes);
  }
}

TEST(SurveyMaps, KeptHeadsHaveTheirStrongestKeysAndRows) {
  const LongInput input(70, 40, 2, 3);
  const std::vector<HeadIndex> keep = {{1, 2, 0}, {0, 0, 1}};
  const HeadSurvey survey = survey_heads(input, {.maps = HeadMapsOptions{.keep = keep, .keep_rows = {69, 0}}});
  const Json json = Json::parse(to_json(survey));
  for (const HeadSurvey::Entry& entry : survey.heads) {
    const Json& map = entry_in(json, entry.index, 3).at("map");
    const bool kept = std::ranges::find(keep, entry.index) != keep.end();
    ASSERT_EQ(map.at("top").is_null(), !kept);
    ASSERT_EQ(map.at("rows").size(), kept ? 2u : 0u);
    if (!kept) continue;
    const Tensor all = input.weights(entry.index);
    const std::int64_t keys = all.size(1);
    const auto top_keys = test::numbers_in<std::int32_t>(map.at("top").at("keys"));
    const auto top_weights = test::numbers_in<float>(map.at("top").at("weights"));
    ASSERT_EQ(map.at("top").at("count"), 32);
    ASSERT_EQ(top_keys.size(), 70u * 32);
    for (std::int64_t i = 0; i < 70; ++i) {
      std::vector<std::int32_t> order(static_cast<std::size_t>(keys));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, {}, [&](std::int32_t j) { return std::pair(-all.view().at<double>({i, j}), j); });
      for (std::int64_t n = 0; n < 32; ++n) {
        const std::int32_t key = order[static_cast<std::size_t>(n)];
        ASSERT_EQ(top_keys[static_cast<std::size_t>(i * 32 + n)], key);
        ASSERT_EQ(top_weights[static_cast<std::size_t>(i * 32 + n)], all.view().at<double>({i, key}));
      }
    }
    for (const auto& [number, query] : {std::pair(0u, 69), std::pair(1u, 0)}) {
      EXPECT_EQ(map.at("rows").at(number).at("query"), query);
      const auto row = test::numbers_in<float>(map.at("rows").at(number).at("weights"));
      ASSERT_EQ(std::ssize(row), keys);
      for (std::int64_t j = 0; j < keys; ++j) {
        ASSERT_EQ(row[static_cast<std::size_t>(j)], all.view().at<double>({query, j}));
      }
    }
  }
}

// Of fewer than 32 keys there are all; where no weight is left, none.
TEST(SurveyMaps, KeysWithoutWeightAreNone) {
  LongInput input(65, 3, 1, 1);
  const HeadSurvey few = survey_heads(input, {.maps = HeadMapsOptions{.keep = {{0, 0, 1}}}});
  EXPECT_EQ(few.heads[1].map->top_keys.shape(), (Dims{65, 3}));
  struct FirstKeyOnly : LongInput {
    using LongInput::LongInput;
    void run(Observer& observer) const override {
      Tensor weights = Tensor::zeros({65, 1, 65});
      for (std::int64_t i = 0; i < 65; ++i) weights.data<float>()[i * 65] = 1;
      for (const char* site : {"own.0.", "cross.0."}) {
        observer.receive(std::string(site) + "query", Tensor::zeros({1, 1, 1}));
        observer.receive(std::string(site) + "value", Tensor::zeros({65, 1, 1}));
        observer.receive(std::string(site) + "weights", weights);
      }
    }
  } first(65, 65, 1, 1);
  const HeadSurvey survey = survey_heads(first, {.maps = HeadMapsOptions{.keep = {{0, 0, 0}}}});
  const TensorView keys = survey.heads[0].map->top_keys;
  for (std::int64_t i = 0; i < 65; ++i) {
    EXPECT_EQ(keys.at<std::int64_t>({i, 0}), 0);
    EXPECT_EQ(keys.at<std::int64_t>({i, 1}), -1);
  }
}

TEST(SurveyMaps, WeightsThatAreNoNumbersAreShownAsSuch) {
  LongInput input(70, 1, 1, 1);
  input.changed_ = std::numeric_limits<float>::quiet_NaN();
  const HeadSurvey survey = survey_heads(input, {.maps = HeadMapsOptions{.keep = {{0, 0, 0}}}});
  const Json map = entry_in(Json::parse(to_json(survey)), {0, 0, 0}, 1).at("map");
  const std::vector<int> fine = bytes_of(map.at("levels").at(0), 512), coarse = bytes_of(map.at("levels").at(1), 512);
  EXPECT_EQ(std::ranges::count(fine, 255), 1);
  EXPECT_EQ(fine[5], 255);
  EXPECT_EQ(std::ranges::count(coarse, 255), 1);
  EXPECT_EQ(coarse[2], 255);
}

TEST(SurveyMaps, ReportHoldsMapsAndSaysWhatHasNoTable) {
  const LongInput input(65, 2, 1, 1);
  Report report;
  report.add(survey_heads(input, {.keep_weights = true, .maps = HeadMapsOptions{}}));
  const std::string html = report.html("Long", "");
  EXPECT_NE(html.find("<p>The 65 x 65 weights of each head are in no table.</p>"), std::string::npos);
  EXPECT_NE(html.find("\"weights\":null,\"map\":{\"tile\":512,"), std::string::npos);
}

std::string refusal(const LongInput& input, const HeadMapsOptions& options) {
  try {
    survey_heads(input, {.maps = options});
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(SurveyMaps, RefusesWhatIsNotThere) {
  const LongInput input(70, 80, 2, 3);
  EXPECT_EQ(refusal(input, {.keep = {{2, 0, 0}}}),
            "explain: there is no head own.2.0 to keep; the layers are 0 to 1, the heads 0 to 2");
  EXPECT_EQ(refusal(input, {.keep = {{0, 3, 1}}}),
            "explain: there is no head cross.0.3 to keep; the layers are 0 to 1, the heads 0 to 2");
  EXPECT_EQ(refusal(input, {.keep = {{-1, 0, 0}}}),
            "explain: there is no head own.-1.0 to keep; the layers are 0 to 1, the heads 0 to 2");
  EXPECT_EQ(refusal(input, {.keep = {{0, 0, 1}}, .keep_rows = {70}}),
            "explain: there is no row 70 of head cross.0.0 to keep; the rows are 0 to 69");
  EXPECT_EQ(refusal(input, {.keep = std::vector<HeadIndex>(5)}),
            "explain: 5 heads are more than the 4 that can be kept");
  EXPECT_EQ(refusal(input, {.keep = {{}}, .keep_rows = std::vector<std::int64_t>(17)}),
            "explain: 17 rows are more than the 16 that can be kept");
  // In base64 each 2 x 160,000 bytes of rows and 2 x 5,120,000 of keys and weights; lengths of values take 3.6 MB.
  const LongInput longer(30'000, 1, 2, 3);
  EXPECT_EQ(refusal(longer, {.keep = {{0, 0, 0}, {1, 2, 0}}, .keep_rows = {0, 1}}),
            "explain: 2 kept heads with 2 rows take 21.2 MB, a report has room for 15.4 MB: 1 of them fit");
}

#ifndef QKV_SANITIZED  // sanitizers need memory of their own
// 20 layers of 8 heads of 256 tokens are 10 million weights, 84 MB as f64. A layer's are 2 MB, one head's half of that
// as f64, all maps 7 MB.
TEST(SurveyMaps, TakeTheMemoryOfALayerAndTheMaps) {
  const LongInput input(256, 1, 20, 8);
  const test::Memory taken = test::cost(
      [&] { return survey_heads(input, {.maps = HeadMapsOptions{.keep = {{0, 0, 0}}, .bytes = 4'000'000}}); });
  EXPECT_LT(taken.peak, 24 * test::kMebibyte);
}
#endif

}  // namespace
}  // namespace qkv
