// What sublayers pass on: their order and shapes, and lengths against plain sums over what an observer receives.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "explain/observe.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/explain/translated_text.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

// Every matrix of a run by its name.
std::map<std::string, Tensor> observed(const Explainable& input) {
  std::map<std::string, Tensor> all;
  observe(input, [&](std::string_view name, const TensorView& value) {
    if (value.rank() == 2) all[std::string(name)] = convert(value, Dtype::f64);
  });
  return all;
}

void expect_lengths(const HeadSurvey& survey, const std::map<std::string, Tensor>& all) {
  for (const SublayerVectors& sublayer : survey.sublayers) {
    const Tensor& rows = all.at(sublayer.name);
    ASSERT_EQ(rows.shape(), (Dims{std::ssize(sublayer.lengths), sublayer.size})) << sublayer.name;
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      double sum = 0;
      for (std::int64_t d = 0; d < rows.size(1); ++d) sum += std::pow(rows.view().at<double>({i, d}), 2);
      EXPECT_DOUBLE_EQ(sublayer.lengths[static_cast<std::size_t>(i)], std::sqrt(sum)) << sublayer.name;
    }
  }
}

TEST(Sublayers, LengthsByHand) {
  std::vector<SublayerVectors> sublayers;
  const std::vector<AttentionSequence> sequences = {{.name = "source", .tokens = {"a"}},
                                                    {.name = "read", .tokens = {"a", "b"}, .scope = "decoder."}};
  const Tensor rows = Tensor::of<float>({2, 3}, {1, 2, -2, 0, 0, 0});
  add_sublayer(sublayers, sequences, "decoder.layers.3.memory.output", rows);
  add_sublayer(sublayers, sequences, "encoder.layers.3.output", rows);                        // of no sequence
  add_sublayer(sublayers, sequences, "decoder.layers.3.merged", rows);                        // no vector passed on
  add_sublayer(sublayers, sequences, "decoder.norm", Tensor::of<float>({1, 3}, {1, 2, -2}));  // not of its length
  ASSERT_EQ(sublayers.size(), 1u);
  EXPECT_EQ(sublayers[0].part, "attention");
  EXPECT_EQ(sublayers[0].sequence, 1u);
  EXPECT_EQ(sublayers[0].size, 3);
  EXPECT_EQ(sublayers[0].lengths, (std::vector<double>{3, 0}));
}

TEST(Sublayers, EncoderHasThemInOrder) {
  const Bert model = Bert::load(QKV_TEST_DATA "/golden/bert/tiny");
  Encoding text;
  for (const std::int32_t id : {3, 5, 7}) {
    text.ids.push_back(id);
    text.tokens.push_back(std::to_string(id));
    text.type_ids.push_back(0);
    text.special.push_back(0);
  }
  const EncodedText input(model, text);
  const HeadSurvey survey = survey_heads(input);
  std::vector<std::string> names;
  for (const SublayerVectors& sublayer : survey.sublayers) names.push_back(sublayer.name + " " + sublayer.part);
  EXPECT_EQ(names, (std::vector<std::string>{"embedding embedding", "positions positions", "embedding_norm norm",  //
                                             "layers.0.output attention", "layers.0.attention_norm norm",
                                             "layers.0.feed_forward feed_forward",
                                             "layers.0.feed_forward_norm norm",  //
                                             "layers.1.output attention", "layers.1.attention_norm norm",
                                             "layers.1.feed_forward feed_forward", "layers.1.feed_forward_norm norm"}));
  expect_lengths(survey, observed(input));
  const Json json = Json::parse(to_json(survey));
  ASSERT_EQ(json["sublayers"].size(), names.size());
  EXPECT_EQ(json["sublayers"][3]["sequence"], "tokens");
  EXPECT_EQ(json["sublayers"][3]["attention"], "attention");
  EXPECT_EQ(json["sublayers"][7]["layer"], 1);
  EXPECT_TRUE(json["sublayers"][0]["layer"].is_null());
  EXPECT_TRUE(json["sublayers"][5]["attention"].is_null());
  EXPECT_EQ(json["sublayers"][3]["shape"], Json({3, model.config().model_dim}));
  EXPECT_EQ(json["sublayers"][3]["lengths"][2].get<float>(), static_cast<float>(survey.sublayers[3].lengths[2]));
}

TEST(Sublayers, TranslationsHaveThemOfBothSides) {
  const Translator translator = Translator::load(QKV_SOURCE_DIR "/models/en-es");
  const TranslatedText input(translator, "You are welcome");
  const HeadSurvey survey = survey_heads(input);
  expect_lengths(survey, observed(input));
  std::map<std::string, std::int64_t> source, read;
  for (const SublayerVectors& sublayer : survey.sublayers) {
    ++(survey.attentions.sequences[sublayer.sequence].name == "source" ? source : read)[sublayer.part];
  }
  const std::vector<AttentionSite>& sites = survey.attentions.sites;
  const std::int64_t encoder = sites[0].layers, decoder = sites[1].layers;
  EXPECT_EQ(source["attention"], encoder);
  EXPECT_EQ(source["feed_forward"], encoder);
  EXPECT_EQ(read["attention"], 2 * decoder);
  EXPECT_EQ(read["feed_forward"], decoder);
  std::vector<std::string> attentions;
  const Json json = Json::parse(to_json(survey));
  for (const Json& sublayer : json["sublayers"]) {
    if (sublayer["part"] == "attention" && sublayer["layer"] == 1) attentions.push_back(sublayer["attention"]);
  }
  EXPECT_EQ(attentions, (std::vector<std::string>{"encoder", "decoder", "encoder_decoder"}));
  for (auto* side : {&source, &read}) {
    EXPECT_EQ((*side)["embedding"], 1);
    EXPECT_EQ((*side)["positions"], 1);
  }
}

}  // namespace
}  // namespace qkv
