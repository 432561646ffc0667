// A kind of model that the library does not know is explained by what it says of itself: a model of two pictures and
// one attention between them, whose numbers are written here.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "explain/example.h"
#include "qkv/explain/explain_model.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

// One layer, one head of size 1: two queries, three keys. Query 0 ignores key 2.
class TwoPictures : public Explainable {
 public:
  const Attentions& attentions() const override { return attentions_; }
  void run(Observer& observer) const override {
    const auto send = [&](const char* name, std::int64_t rows, std::int64_t columns, const std::vector<float>& values) {
      observer.receive(std::string("block.0.cross.") + name, Tensor::of<float>({rows, 1, columns}, values));
    };
    observer.receive("block.0.other.weights", Tensor::of<float>({1, 1, 1}, {1}));
    send("query", 2, 1, {1, 2});
    send("key", 3, 1, {1, 0, -1});
    send("value", 3, 1, {4, 8, 16});
    send("logits", 2, 3, {1, 0, -1, 2, 0, -2});
    send("weights", 2, 3, {0.75, 0.25, 0, 0.5, 0.25, 0.25});
    send("heads", 2, 1, {5, 8});
  }

  // What the two cells lose without a patch.
  Outcome outcome(const LeftOut& more) const override {
    Outcome found{.log_probabilities = {-1, -2}};
    for (const KeyIndex& one : more.keys) {
      constexpr double kLosses[][2] = {{0.5, -1}, {0.25, 1}, {-1, 0}};
      for (std::size_t t = 0; t < 2; ++t) found.log_probabilities[t] -= kLosses[one.key][t];
    }
    return found;
  }

  Attentions attentions_{.sequences = {{"patches", "Seen:  ", {"sky", "sea", "<class>"}, {0, 0, 1}},
                                       {"cells", "Drawn:  ", {"blue", "green"}, {0, 0}}},
                         .sites = {{.name = "cross",
                                    .title = "Cross-attention",
                                    .caption = "cells attend to patches",
                                    .before = "block.",
                                    .after = ".cross.",
                                    .layers = 1,
                                    .heads = 1,
                                    .model_dim = 7,
                                    .queries = 1,
                                    .keys = 0}},
                         .input = "a.png"};
};

TEST(Explainable, AnyKindIsSurveyed) {
  const TwoPictures pictures;
  const HeadSurvey survey = survey_heads(pictures, {.keep_weights = true});
  ASSERT_EQ(survey.heads.size(), 1u);
  EXPECT_EQ(survey.heads[0].summary.first, (0.75 + 0.5) / 2);
  EXPECT_EQ(survey.heads[0].summary.separators, 0.125);
  // Without an output projection the values have their own lengths, 4, 8 and 16.
  EXPECT_EQ(survey.heads[0].value_norm, ((0.75 * 4 + 0.25 * 8) + (0.5 * 4 + 0.25 * 8 + 0.25 * 16)) / 2);
  const std::string text = to_text(survey);
  EXPECT_TRUE(text.starts_with("What the heads attend to\n")) << text;
  EXPECT_TRUE(test::has_line_with(text, "Seen:  0 sky, 1 sea, 2 <class>\n")) << text;
  EXPECT_LT(text.find("Seen:"), text.find("Drawn:"));
  EXPECT_TRUE(test::has_line_with(text, "Cross-attention: cells attend to patches (--attention cross)")) << text;
  const Json json = Json::parse(to_json(survey));
  EXPECT_EQ(json["sequences"][1]["tokens"], Json({"blue", "green"}));
  EXPECT_EQ(json["attentions"][0]["all"][0]["weights"], Json::parse("[[0.75, 0.25, 0], [0.5, 0.25, 0.25]]"));
  EXPECT_THROW(words_to_text(survey), std::invalid_argument);
}

TEST(Explainable, AnyKindIsTraced) {
  const HeadTrace trace = trace_head(TwoPictures(), {.layer = 0, .head = 0});
  EXPECT_EQ(trace.title, "Cross-attention, layer 0, head 0: a.png");
  EXPECT_EQ(trace.tokens, (std::vector<std::string>{"blue", "green"}));
  EXPECT_EQ(trace.keys, (std::vector<std::string>{"sky", "sea", "<class>"}));
  EXPECT_EQ(trace.model_dim, 7);
  EXPECT_EQ(trace.scores.view().at<double>({1, 2}), -2);
  EXPECT_EQ(trace.logits_difference, 0);
  EXPECT_EQ(trace.output_difference, 0);
  EXPECT_TRUE(test::has_line_with(to_text(trace), "->  sky 0.750, sea 0.250, <class> 0.000\n")) << to_text(trace);
}

// Two target tokens are one word, of two source words; then the first one is part of none.
TEST(Explainable, WordsAreAlignedByTheirTokens) {
  TwoPictures pictures;
  pictures.attentions_.alignment = Alignment{.source_text = "sky-sea",
                                             .target_text = "blue-green",
                                             .source = {{"skysea", "<class>"}, {0, 0, 1}},
                                             .target = {{"blue-green"}, {0, 0}}};
  const HeadSurvey survey = survey_heads(pictures);
  ASSERT_EQ(survey.word_weights.shape(), (Dims{1, 2}));
  EXPECT_EQ(survey.word_weights.view().at<double>({0, 0}), (0.75 + 0.25 + 0.5 + 0.25) / 2);
  EXPECT_EQ(survey.word_weights.view().at<double>({0, 1}), 0.125);
  // Without sky and sea 0.75 and 0 are lost, without <class> -1 and 0, which count as nothing.
  EXPECT_EQ(survey.word_alignment.view().at<double>({0, 0}), 1);
  EXPECT_EQ(survey.word_alignment.view().at<double>({0, 1}), 0);
  EXPECT_TRUE(words_to_text(survey).starts_with("sky-sea  ->  blue-green\n")) << words_to_text(survey);

  pictures.attentions_.alignment->target = {{"green"}, {-1, 0}};
  EXPECT_EQ(survey_heads(pictures).word_weights.view().at<double>({0, 0}), 0.75);
  for (const std::vector<std::int64_t>& wrong : {std::vector<std::int64_t>{0, 1}, {0}, {0, 0, 0}}) {
    pictures.attentions_.alignment->target = {{"green"}, wrong};
    EXPECT_THROW(survey_heads(pictures), std::invalid_argument);
  }
}

}  // namespace
}  // namespace qkv
