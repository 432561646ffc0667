// What the model that ships attends to while it translates: weights of its own run, words, text, JSON and refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "explain/example.h"
#include "qkv/explain/explain_translation.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

const Translator& shipped() {
  static const Translator translator = Translator::load(QKV_SOURCE_DIR "/models/en-es");
  return translator;
}

const std::string kText = "Thank you very much, my friend.";

double sum_of_row(const Tensor& matrix, std::int64_t row) {
  double sum = 0;
  for (std::int64_t j = 0; j < matrix.size(1); ++j) sum += matrix.view().at<double>({row, j});
  return sum;
}

// Rounding of float32 in a row of weights.
constexpr double kRounding = 1e-6;

TEST(ExplainTranslation, TokensAndWordsAreThoseOfTheTranslation) {
  const TranslationSurvey survey = survey_translation(shipped(), kText);
  EXPECT_EQ(survey.target_text, shipped().translate(kText).text);
  std::string words, source;
  for (const std::string& word : survey.target_words) words += (words.empty() ? "" : " ") + word;
  EXPECT_EQ(words, survey.target_text);
  EXPECT_EQ(survey.source_words.back(), "</s>");
  for (std::size_t i = 0; i + 1 < survey.source_words.size(); ++i)
    source += (i > 0 ? " " : "") + survey.source_words[i];
  EXPECT_EQ(source, kText);
  EXPECT_EQ(survey.read.size(), survey.target.size());
  EXPECT_EQ(survey.read.front(), "<pad>");
  EXPECT_EQ(survey.target.back(), "</s>");
}

TEST(ExplainTranslation, WordsShareOutTheirWeight) {
  const TranslationSurvey survey = survey_translation(shipped(), kText, {.keep_weights = true});
  ASSERT_EQ(survey.word_weights.size(0), static_cast<std::int64_t>(survey.target_words.size()));
  for (std::int64_t i = 0; i < survey.word_weights.size(0); ++i) {
    EXPECT_NEAR(sum_of_row(survey.word_weights, i), 1, kRounding);
  }
  // The weight of the end of the source, by hand: it is a token and a word.
  double first = 0;
  for (const auto& entry : survey.encoder_decoder) {
    first += entry.weights.view().at<double>({0, entry.weights.size(1) - 1}) /
             static_cast<double>(survey.encoder_decoder.size());
  }
  const bool one_token = survey.target_words.front() == survey.target.front();
  if (one_token) {
    EXPECT_NEAR(survey.word_weights.view().at<double>({0, survey.word_weights.size(1) - 1}), first, 1e-12);
  }
}

// A BART whose tokens are bytes, spaces of their own among them, and whose first token is forced.
TEST(ExplainTranslation, WordsOfABart) {
  const Translator bart = Translator::load(QKV_TEST_DATA "/golden/translate/bart_text");
  const TranslationSurvey survey = survey_translation(bart, "Good morning");
  EXPECT_EQ(survey.source_words, (std::vector<std::string>{"<s>", "Good", "morning", "</s>"}));
  EXPECT_EQ(survey.target_words, (std::vector<std::string>{"Buenos",
                                                           "d\xc3\xad"
                                                           "as"}));
  ASSERT_EQ(survey.word_weights.shape(), (Dims{2, 4}));
  for (std::int64_t i = 0; i < 2; ++i) EXPECT_NEAR(sum_of_row(survey.word_weights, i), 1, kRounding);
  EXPECT_EQ(survey.target.front(), "<s>");
  EXPECT_EQ(survey.read.front(), "</s>");
}

TEST(ExplainTranslation, SaysWhatWasCutOff) {
  const Translator bart = Translator::load(QKV_TEST_DATA "/golden/translate/bart_text");  // 24 positions
  std::string text;
  for (int i = 0; i < 40; ++i) text += "x ";
  const TranslationSurvey survey = survey_translation(bart, text);
  EXPECT_EQ(survey.source.size(), 24u);
  EXPECT_EQ(survey.cut, static_cast<std::int64_t>(bart.tokenizer().encode(text).ids.size()) - 24);
  EXPECT_NE(to_text(survey).find(" tokens of the text are cut off"), std::string::npos);
  EXPECT_EQ(Json::parse(to_json(survey)).at("cut").get<std::int64_t>(), survey.cut);
  EXPECT_EQ(to_text(survey_translation(bart, "Good morning")).find("cut off"), std::string::npos);
}

TEST(ExplainTranslation, EveryHeadOfEachAttention) {
  const TranslationSurvey survey = survey_translation(shipped(), kText, {.keep_weights = true});
  const MarianConfig& config = shipped().model().config();
  const auto expect = [&](const std::vector<HeadSurvey::Entry>& entries, AttentionSite site, std::int64_t layers,
                          std::int64_t heads) {
    ASSERT_EQ(static_cast<std::int64_t>(entries.size()), layers * heads);
    for (std::int64_t i = 0; i < layers * heads; ++i) {
      const HeadSurvey::Entry& entry = entries[static_cast<std::size_t>(i)];
      EXPECT_EQ(entry.index.layer, i / heads);
      EXPECT_EQ(entry.index.head, i % heads);
      const HeadTrace trace = trace_translation(shipped(), kText, site, entry.index);
      EXPECT_EQ(trace.summary.entropy, entry.summary.entropy);
      ASSERT_EQ(trace.weights.shape(), entry.weights.shape());
      EXPECT_EQ(trace.weights.size(0), static_cast<std::int64_t>(trace.tokens.size()));
      EXPECT_EQ(trace.weights.size(1), static_cast<std::int64_t>(trace.keys.size()));
      for (std::int64_t row = 0; row < trace.weights.size(0); ++row) {
        EXPECT_NEAR(sum_of_row(trace.weights, row), 1, kRounding);
        for (std::int64_t key = row + 1; site == AttentionSite::decoder && key < trace.weights.size(1); ++key) {
          EXPECT_EQ(trace.weights.view().at<double>({row, key}), 0);  // not written yet
        }
      }
      EXPECT_LT(trace.logits_difference, 1e-4);
      EXPECT_LT(trace.output_difference, 1e-5);
    }
  };
  expect(survey.encoder, AttentionSite::encoder, config.encoder_layers, config.encoder_heads);
  expect(survey.decoder, AttentionSite::decoder, config.decoder_layers, config.decoder_heads);
  expect(survey.encoder_decoder, AttentionSite::encoder_decoder, config.decoder_layers, config.decoder_heads);
}

TEST(ExplainTranslation, TextAndJsonSayTheSame) {
  const TranslationSurvey survey = survey_translation(shipped(), "You are welcome");
  const std::string text = to_text(survey);
  EXPECT_TRUE(text.starts_with("You are welcome  ->  De nada\n")) << text;
  EXPECT_TRUE(text.starts_with(words_to_text(survey)));
  for (const char* title : {"Encoder self-attention", "Masked decoder self-attention", "Encoder-decoder attention"}) {
    EXPECT_NE(text.find(title), std::string::npos) << title;
  }
  const Json json = Json::parse(to_json(survey));
  EXPECT_EQ(json["source_words"], Json({"You", "are", "welcome", "</s>"}));
  EXPECT_EQ(json["word_weights"][1][2], survey.word_weights.view().at<double>({1, 2}));
  EXPECT_EQ(json["encoder_decoder"].size(), survey.encoder_decoder.size());
}

TEST(ExplainTranslation, HiddenKeysAreNotShown) {
  const HeadTrace trace = trace_translation(shipped(), "You are welcome", AttentionSite::decoder, {0, 0});
  EXPECT_TRUE(test::has_line_with(to_text(trace), "0 <pad>  ->  <pad> 1.000\n")) << to_text(trace);
}

TEST(ExplainTranslation, Refuses) {
  EXPECT_THROW(survey_translation(shipped(), ""), std::invalid_argument);
  EXPECT_THROW(trace_translation(shipped(), "a", AttentionSite::decoder, {99, 0}), std::invalid_argument);
  EXPECT_THROW(trace_translation(shipped(), "a", AttentionSite::encoder, {0, -1}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
