// What the model that ships attends to while it translates: weights of its own run, words, text, JSON and refusals.
#include "qkv/explain/translated_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "explain/example.h"
#include "qkv/explain/explain_model.h"
#include "qkv/models/marian.h"

namespace qkv {
namespace {

using Json = nlohmann::json;
using test::kRounding;
using test::sum_of_row;

const Translator& shipped() {
  static const Translator translator = Translator::load(QKV_SOURCE_DIR "/models/en-es");
  return translator;
}

constexpr std::size_t kDecoder = 1;  // the number of its attention
const std::string kText = "Thank you very much, my friend.";

const std::vector<std::string>& tokens(const HeadSurvey& survey, const std::string& sequence) {
  const auto& all = survey.attentions.sequences;
  return std::ranges::find(all, sequence, &AttentionSequence::name)->tokens;
}

TEST(ExplainTranslation, TokensAndWordsAreThoseOfTheTranslation) {
  const HeadSurvey survey = survey_heads(TranslatedText(shipped(), kText));
  const Alignment& alignment = *survey.attentions.alignment;
  const std::vector<std::string>& source_words = alignment.source.words;
  EXPECT_EQ(alignment.target_text, shipped().translate(kText).text);
  std::string words, source;
  for (const std::string& word : alignment.target.words) words += (words.empty() ? "" : " ") + word;
  EXPECT_EQ(words, alignment.target_text);
  for (std::size_t i = 0; i < source_words.size(); ++i) source += (i > 0 ? " " : "") + source_words[i];
  EXPECT_EQ(source, kText);
  EXPECT_EQ(tokens(survey, "read").size(), tokens(survey, "target").size());
  EXPECT_EQ(tokens(survey, "read").front(), "(start)");
  EXPECT_EQ(tokens(survey, "target").back(), "(end)");
}

TEST(ExplainTranslation, WordsShareOutTheirWeight) {
  const HeadSurvey survey = survey_heads(TranslatedText(shipped(), kText), {.keep_weights = true});
  const std::vector<std::string>& target_words = survey.attentions.alignment->target.words;
  ASSERT_EQ(survey.word_weights.size(0), std::ssize(target_words));
  for (std::int64_t i = 0; i < survey.word_weights.size(0); ++i) {
    EXPECT_NEAR(sum_of_row(survey.word_weights, i), 1, kRounding);
  }
  // The alignment by hand: what the tokens of a word lose without those of another, if they do.
  const TranslatedText run(shipped(), kText);
  const Alignment& both = *survey.attentions.alignment;
  const std::vector<double> whole = run.outcome({}).log_probabilities;
  std::vector<std::vector<double>> losses;
  for (std::size_t word = 0; word < both.source.words.size(); ++word) {
    LeftOut hidden;
    for (std::size_t j = 0; j < both.source.word_of.size(); ++j) {
      if (both.source.word_of[j] == static_cast<std::int64_t>(word)) {
        hidden.keys.push_back({static_cast<std::int64_t>(j), both.site});
      }
    }
    const std::vector<double> without = run.outcome(hidden).log_probabilities;
    std::vector<double>& own = losses.emplace_back(target_words.size());
    for (std::size_t t = 0; t + 1 < whole.size(); ++t) {
      own[static_cast<std::size_t>(both.target.word_of[t])] += whole[t] - without[t];
    }
  }
  for (std::size_t i = 0; i < target_words.size(); ++i) {
    double sum = 0;
    for (const std::vector<double>& own : losses) sum += std::max(own[i], 0.0);
    for (std::size_t j = 0; j < losses.size(); ++j) {
      EXPECT_NEAR(survey.word_alignment.view().at<double>({static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)}),
                  std::max(losses[j][i], 0.0) / sum, 1e-12);
    }
  }
  // The first word's weights by hand: every head for each of its tokens, without the end.
  const std::vector<std::int64_t>& target = survey.attentions.alignment->target.word_of;
  const std::vector<std::int64_t>& source = survey.attentions.alignment->source.word_of;
  std::vector<double> sums(survey.attentions.alignment->source.words.size());
  double all = 0;
  for (const auto& entry : survey.heads) {
    if (entry.index.site != survey.attentions.alignment->site) continue;
    for (std::int64_t i = 0; target[static_cast<std::size_t>(i)] == 0; ++i) {
      for (std::int64_t j = 0; j + 1 < entry.weights.size(1); ++j) {
        const double share = entry.weights.view().at<double>({i, j});
        sums[static_cast<std::size_t>(source[static_cast<std::size_t>(j)])] += share;
        all += share;
      }
    }
  }
  for (std::size_t word = 0; word < sums.size(); ++word) {
    EXPECT_NEAR(survey.word_weights.view().at<double>({0, static_cast<std::int64_t>(word)}), sums[word] / all, 1e-12);
  }
}

// A BART whose tokens are bytes, spaces of their own among them, and whose first token is forced.
TEST(ExplainTranslation, WordsOfABart) {
  const Translator bart = Translator::load(QKV_TEST_DATA "/golden/translate/bart_text");
  const HeadSurvey survey = survey_heads(TranslatedText(bart, "Good morning"));
  const Alignment& alignment = *survey.attentions.alignment;
  EXPECT_EQ(alignment.source.words, (std::vector<std::string>{"Good", "morning"}));
  EXPECT_EQ(alignment.target.words, (std::vector<std::string>{"Buenos",
                                                              "d\xc3\xad"
                                                              "as"}));
  ASSERT_EQ(survey.word_weights.shape(), (Dims{2, 2}));
  for (std::int64_t i = 0; i < 2; ++i) EXPECT_NEAR(sum_of_row(survey.word_weights, i), 1, kRounding);
  EXPECT_EQ(tokens(survey, "target").front(), "(start)");
  EXPECT_EQ(tokens(survey, "read").front(), "(start)");
}

TEST(ExplainTranslation, SaysWhatWasCutOff) {
  const Translator bart = Translator::load(QKV_TEST_DATA "/golden/translate/bart_text");  // 24 positions
  std::string text;
  for (int i = 0; i < 40; ++i) text += "x ";
  const HeadSurvey survey = survey_heads(TranslatedText(bart, text));
  const std::int64_t cut = survey.attentions.alignment->cut;
  EXPECT_EQ(tokens(survey, "source").size(), 24u);
  EXPECT_EQ(cut, static_cast<std::int64_t>(bart.tokenizer().encode(text).ids.size()) - 24);
  EXPECT_NE(to_text(survey).find(" tokens of the text are cut off"), std::string::npos);
  EXPECT_EQ(Json::parse(to_json(survey)).at("translation").at("cut").get<std::int64_t>(), cut);
  EXPECT_EQ(to_text(survey_heads(TranslatedText(bart, "Good morning"))).find("cut off"), std::string::npos);
}

TEST(ExplainTranslation, EveryHeadOfEachAttention) {
  const TranslatedText text(shipped(), kText);
  const HeadSurvey survey = survey_heads(text, {.keep_weights = true});
  const MarianConfig& config = dynamic_cast<const Marian&>(shipped().model()).config();
  const HeadIndex ends[] = {{config.encoder_layers, config.encoder_heads, 0},
                            {config.decoder_layers, config.decoder_heads, 1},
                            {config.decoder_layers, config.decoder_heads, 2}};
  auto entry = survey.heads.begin();
  for (const auto& [layers, heads, site] : ends) {
    for (std::int64_t i = 0; i < layers * heads; ++i, ++entry) {
      ASSERT_NE(entry, survey.heads.end());
      EXPECT_EQ(entry->index.site, site);
      EXPECT_EQ(entry->index.layer, i / heads);
      EXPECT_EQ(entry->index.head, i % heads);
      const HeadTrace trace = trace_head(text, entry->index);
      EXPECT_EQ(trace.summary.entropy, entry->summary.entropy);
      ASSERT_EQ(trace.weights.shape(), entry->weights.shape());
      EXPECT_EQ(trace.weights.size(0), std::ssize(trace.tokens));
      EXPECT_EQ(trace.weights.size(1), std::ssize(trace.keys));
      for (std::int64_t row = 0; row < trace.weights.size(0); ++row) {
        EXPECT_NEAR(sum_of_row(trace.weights, row), 1, kRounding);
        for (std::int64_t key = row + 1; site == kDecoder && key < trace.weights.size(1); ++key) {
          EXPECT_EQ(trace.weights.view().at<double>({row, key}), 0);  // not written yet
        }
      }
      EXPECT_LT(trace.logits_difference, 1e-4);
      EXPECT_LT(trace.output_difference, 1e-5);
    }
  }
  EXPECT_EQ(entry, survey.heads.end());
}

TEST(ExplainTranslation, TextAndJsonSayTheSame) {
  const HeadSurvey survey = survey_heads(TranslatedText(shipped(), "You are welcome"));
  const std::string text = to_text(survey);
  EXPECT_TRUE(text.starts_with("You are welcome  ->  De nada\n")) << text;
  EXPECT_TRUE(text.starts_with(words_to_text(survey)));
  for (const char* title : {"Encoder self-attention", "Masked decoder self-attention", "Encoder-decoder attention"}) {
    EXPECT_NE(text.find(title), std::string::npos) << title;
  }
  const Json json = Json::parse(to_json(survey));
  EXPECT_EQ(json["translation"]["source_words"], Json({"You", "are", "welcome"}));
  EXPECT_EQ(json["translation"]["word_weights"][1][2], survey.word_weights.view().at<double>({1, 2}));
  std::size_t heads = 0;
  for (const Json& attention : json["attentions"]) heads += attention["all"].size();
  EXPECT_EQ(heads, survey.heads.size());
  EXPECT_EQ(json["attentions"][1]["mask"], "causal");
  EXPECT_EQ(json["sequences"][0]["word_of"], Json({0, 1, 2, 2, 2, 2, -1}));
  EXPECT_EQ(json["sequences"][2]["tokens"][0], "(start)");
}

// The log-probabilities of the tokens add up to that of the translation, which the search counted.
TEST(ExplainTranslation, WrittenTokensHaveTheirProbabilities) {
  for (const std::string text : {"You are welcome", "Thank you for your help."}) {
    const Translation translation = shipped().translate(text);
    const TranslatedText explained(shipped(), text);
    const std::vector<WrittenToken>& written = explained.attentions().alignment->written;
    ASSERT_EQ(written.size(), translation.ids.size());
    double sum = 0;
    for (std::size_t i = 0; i < written.size(); ++i) {
      EXPECT_EQ(written[i].id, translation.ids[i]);
      sum += std::log(written[i].probability);
      ASSERT_EQ(written[i].candidates.size(), 5u);
      double shares = 0;
      for (std::size_t c = 0; c < 5; ++c) {
        shares += written[i].candidates[c].probability;
        if (c > 0) {
          EXPECT_LE(written[i].candidates[c].probability, written[i].candidates[c - 1].probability);
        }
      }
      EXPECT_LE(shares, 1 + kRounding);
      EXPECT_LE(written[i].probability, written[i].candidates[0].probability);
    }
    EXPECT_NEAR(sum, translation.log_probability, 1e-4);
    EXPECT_EQ(written.back().token, "</s>");
  }
}

TEST(ExplainTranslation, HiddenKeysAreNotShown) {
  const HeadTrace trace = trace_head(TranslatedText(shipped(), "You are welcome"), {0, 0, kDecoder});
  EXPECT_TRUE(test::has_line_with(to_text(trace), "0 (start)  ->  (start) 1.000\n")) << to_text(trace);
}

TEST(ExplainTranslation, Refuses) {
  EXPECT_THROW(TranslatedText(shipped(), ""), std::invalid_argument);
  const TranslatedText text(shipped(), "a");
  EXPECT_THROW(trace_head(text, {99, 0, kDecoder}), std::invalid_argument);
  EXPECT_THROW(trace_head(text, {0, -1}), std::invalid_argument);
  EXPECT_THROW(trace_head(text, {0, 0, 3}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
