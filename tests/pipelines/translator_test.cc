// Translation by Marian and BART models, against what transformers generates (tests/golden/translate).
#include "qkv/translator.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/files_for_test.h"
#include "qkv/error.h"

namespace qkv {
namespace {

using Json = nlohmann::json;
using Sources = std::vector<std::vector<std::int32_t>>;

const std::string kGolden = QKV_TEST_DATA "/golden/translate/";

Json golden(const std::string& name) { return Json::parse(std::ifstream(kGolden + name + ".json")); }

class TranslatorModels : public testing::TestWithParam<const char*> {
 protected:
  const Json golden_ = golden(GetParam());
  const Sources sources_ = golden_.at("sources").get<Sources>();
  const Translator translator_ = Translator::load(kGolden + GetParam());
  TranslateOptions options() const { return {.max_length = golden_.at("max_new_tokens").get<std::int64_t>()}; }
};

INSTANTIATE_TEST_SUITE_P(All, TranslatorModels, testing::Values("relu", "swish", "gelu", "bart", "bart_scaled"));

TEST_P(TranslatorModels, GreedyIsThatOfTransformers) {
  TranslateOptions greedy = options();
  greedy.beams = 1;
  const auto found = translator_.generate(sources_, greedy);
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    EXPECT_EQ(found[i].at(0).tokens, golden_["greedy"][i].get<std::vector<std::int32_t>>()) << i;
  }
}

// transformers adds up scores in float: some roundings of numbers of size 10, over the length.
constexpr double kRounding = 1e-5;

TEST_P(TranslatorModels, BeamsAreThoseOfTransformers) {
  TranslateOptions beams = options();
  beams.nbest = 4;  // the folder says four beams
  const auto found = translator_.generate(sources_, beams);
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Json& expected = golden_["beams"][i];
    ASSERT_EQ(found[i].size(), expected["tokens"].size()) << i;
    const auto scores = expected["scores"].get<std::vector<double>>();
    for (std::size_t n = 0; n < scores.size(); ++n) {
      EXPECT_NEAR(found[i][n].score, scores[n], kRounding) << i << ", " << n;
      const bool tied = (n > 0 && scores[n - 1] - scores[n] < kRounding) ||
                        (n + 1 < scores.size() && scores[n] - scores[n + 1] < kRounding);
      if (tied) continue;  // which of them comes first is a matter of roundings
      EXPECT_EQ(found[i][n].tokens, expected["tokens"][n].get<std::vector<std::int32_t>>()) << i << ", " << n;
    }
  }
}

TEST_P(TranslatorModels, ASentenceIsTheSameInAnyCompanyAndOnAnyThreads) {
  TranslateOptions together = options();
  together.nbest = 4;
  together.threads = 1;
  const auto all = translator_.generate(sources_, together);
  for (const int threads : {2, 3}) {
    together.threads = threads;
    const auto again = translator_.generate(sources_, together);
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t n = 0; n < all[i].size(); ++n) {
        EXPECT_EQ(again[i][n].tokens, all[i][n].tokens);
        EXPECT_EQ(again[i][n].score, all[i][n].score);
      }
    }
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const auto alone = translator_.generate(std::span(&sources_[i], 1), together);
    EXPECT_EQ(alone[0][0].tokens, all[i][0].tokens);
    EXPECT_EQ(alone[0][0].score, all[i][0].score);
  }
}

void expect_texts(const std::string& folder, const Json& expected) {
  const Translator translator = Translator::load(folder);
  const auto texts = expected["texts"].get<std::vector<std::string>>();
  Sources sources;
  for (const std::string& text : texts) sources.push_back(translator.tokenizer().encode(text).ids);
  EXPECT_EQ(Json(sources), expected["ids"]);
  const auto tokens = [&](std::int64_t beams) {
    Json all = Json::array();
    for (const auto& found :
         translator.generate(sources, {.beams = beams, .max_length = expected["max_new_tokens"].get<std::int64_t>()})) {
      all.push_back(found.at(0).tokens);
    }
    return all;
  };
  EXPECT_EQ(tokens(1), expected["greedy"]);
  EXPECT_EQ(tokens(4), expected["beams"]);
  const auto translations = translator.translate(texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(translations[i].at(0).text, expected["text"][i].get<std::string>()) << texts[i];
  }
}

TEST(Translator, TheShippedModelIsThatOfTransformersAndCTranslate2) {
  expect_texts(QKV_SOURCE_DIR "/models/en-es", golden("shipped"));
}

// Byte-level pairs, and a first token that is forced.
TEST(Translator, ABartReadsAndWritesText) { expect_texts(kGolden + "bart_text", golden("bart_text")); }

// The model has 24 positions.
TEST(Translator, TranslatesTheBeginningOfWhatIsTooLong) {
  const Translator translator = Translator::load(kGolden + "bart_text");
  std::string text = "Good morning";
  EXPECT_EQ(translator.translate(text).cut, 0);
  while (translator.tokenizer().encode(text).ids.size() <= 24) text += " you";
  const auto all = translator.tokenizer().encode(text).ids;
  std::vector<std::int32_t> read(all.begin(), all.begin() + 23);
  read.push_back(2);  // the end token stays
  const Translation found = translator.translate(text);
  EXPECT_EQ(found.cut, static_cast<std::int64_t>(all.size()) - 24);
  EXPECT_EQ(found.ids, translator.generate(Sources{read})[0][0].tokens);
}

TEST(Translator, RefusesWhatItCannotDo) {
  const Translator translator = Translator::load(kGolden + "relu");
  EXPECT_THROW(translator.translate("text"), FormatError);  // no tokenizer.json
  EXPECT_THROW(translator.generate(Sources{{}}), std::invalid_argument);
  EXPECT_THROW(translator.generate(Sources{{41}}), std::invalid_argument);
  EXPECT_THROW(translator.generate(Sources{{-1}}), std::invalid_argument);
  EXPECT_THROW(translator.generate(Sources{std::vector<std::int32_t>(33, 1)}), std::invalid_argument);
  EXPECT_THROW(translator.generate(Sources{{1}}, {.max_length = 0}), std::invalid_argument);
  EXPECT_TRUE(translator.generate(Sources{}).empty());
}

TEST(Translator, RefusesWaysOfGeneratingThatItDoesNotKnow) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "model";
  std::filesystem::copy(kGolden + "relu", path);
  const Json config = Json::parse(std::ifstream(path + "/generation_config.json"));
  const auto refused = [&](const std::string& key, const Json& value, const std::string& part) {
    Json changed = config;
    changed[key] = value;
    std::ofstream(path + "/generation_config.json") << changed;
    try {
      Translator::load(path);
      ADD_FAILURE() << key;
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find("generation_config.json: " + part), std::string::npos) << error.what();
    }
  };
  refused("num_beams", 0, "num_beams");
  refused("do_sample", true, "do_sample");
  refused("no_repeat_ngram_size", -1, "no_repeat_ngram_size");
  refused("no_repeat_ngram_size", 1.5, "no_repeat_ngram_size");
  refused("encoder_no_repeat_ngram_size", 3, "encoder_no_repeat_ngram_size");
  refused("min_length", -1, "min_length");
  refused("min_new_tokens", "2", "min_new_tokens");
  refused("repetition_penalty", 1.2, "repetition_penalty");
  refused("bad_words_ids", Json::array({Json::array({1, 2})}), "bad_words_ids");
  refused("bad_words_ids", Json::array({Json::array({41})}), "bad_words_ids");
  refused("decoder_start_token_id", 41, "decoder_start_token_id");
  refused("forced_eos_token_id", 3, "forced_eos_token_id");
  refused("forced_bos_token_id", 41, "forced_bos_token_id");
  refused("max_length", 1, "max_length");
}

}  // namespace
}  // namespace qkv
