// Translation by Marian and BART models, against what transformers generates (tests/golden/translate).
#include "qkv/models/translator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

// transformers adds up log-probabilities in float: some roundings of numbers of size 10 for each token.
constexpr double kRounding = 1e-5;

void expect_hypotheses(const std::vector<Hypothesis>& found, const Json& expected, double length_penalty = 1) {
  ASSERT_EQ(found.size(), expected.at("tokens").size());
  const auto scores = expected.at("scores").get<std::vector<double>>();
  for (std::size_t n = 0; n < scores.size(); ++n) {
    const double rounding = kRounding * std::pow(static_cast<double>(found[n].tokens.size()), 1 - length_penalty);
    EXPECT_NEAR(found[n].score, scores[n], rounding) << n;
    // The last one may tie with one that the file lacks: of "swish" with two beams the next score is 1.3e-7 less. Then
    // the scores agree to what the file rounds them to.
    const bool is_last = n + 1 == scores.size();
    const bool tied = (n > 0 && scores[n - 1] - scores[n] < rounding) ||
                      (is_last ? std::abs(found[n].score - scores[n]) < 2e-6 : scores[n] - scores[n + 1] < rounding);
    if (tied) continue;  // which of them comes first is a matter of roundings
    EXPECT_EQ(found[n].tokens, expected.at("tokens")[n].get<std::vector<std::int32_t>>()) << n;
  }
}

TEST_P(TranslatorModels, BeamsAreThoseOfTransformers) {
  TranslateOptions beams = options();
  beams.nbest = 4;  // the folder says four beams
  const auto found = translator_.generate(sources_, beams);
  for (std::size_t i = 0; i < sources_.size(); ++i) expect_hypotheses(found[i], golden_["beams"][i]);
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

std::vector<std::string> names_of_searches() {
  const Json models = golden("searches");
  std::vector<std::string> names;
  for (const auto& [name, model] : models.items()) names.push_back(name);
  return names;
}

class Searches : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, Searches, testing::ValuesIn(names_of_searches()),
                         [](const auto& test) { return test.param; });

// Numbers of beams, length penalties and every setting of a generation_config.json that changes what is written.
TEST_P(Searches, SettingsOfTheFolderAreThoseOfTransformers) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "model";
  std::filesystem::copy(kGolden + GetParam(), path);
  const Json own = Json::parse(std::ifstream(path + "/generation_config.json"));
  const Json golden_model = golden("searches").at(GetParam());
  const Sources sources = golden_model.at("sources").get<Sources>();
  for (const Json& example : golden_model.at("cases")) {
    Json config = own;
    config.update(example.at("settings"));
    std::ofstream(path + "/generation_config.json") << config;
    const auto found =
        Translator::load(path).generate(sources, {.max_length = golden_model.at("max_new_tokens").get<std::int64_t>(),
                                                  .nbest = example.at("settings").at("num_beams").get<std::int64_t>()});
    const double penalty = example.at("settings").value("length_penalty", 1.0);
    for (std::size_t i = 0; i < sources.size(); ++i) expect_hypotheses(found[i], example.at("found")[i], penalty);
    if (HasFailure()) FAIL() << example.at("settings");
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

// A model without tokenizer.json, with Marian's own files; its vocabulary has 41 tokens, the last of them padding.
std::string folder_of_marian(const test::TemporaryFolder& folder) {
  const std::string path = folder / "model", files = QKV_TEST_DATA "/golden/tokenizer/marian/";
  std::filesystem::copy(kGolden + "relu", path);
  std::filesystem::copy(files + "source.spm", path + "/source.spm");
  std::filesystem::copy(files + "source.spm", path + "/target.spm");
  Json vocabulary = {{"<pad>", 40}};
  const Json whole = Json::parse(std::ifstream(files + "vocab.json"));
  for (const auto& [token, id] : whole.items()) {
    if (id < 40) vocabulary[token] = id;
  }
  std::ofstream(path + "/vocab.json") << vocabulary;
  return path;
}

TEST(Translator, ReadsTheTokenizerFilesOfMarian) {
  const test::TemporaryFolder folder;
  const std::string path = folder_of_marian(folder), text = "the cat sat on a mat";
  const Translator translator = Translator::load(path);
  const auto ids = Tokenizer::load_marian(path + "/source.spm", path + "/vocab.json").encode(text).ids;
  EXPECT_EQ(translator.tokenizer().encode(text).ids, ids);
  EXPECT_EQ(translator.target_tokenizer().encode(text).ids, ids);
  const Hypothesis best = translator.generate(Sources{ids}, {.max_length = 8}).at(0).at(0);
  const Translation translation = translator.translate(std::vector{text}, {.max_length = 8}).at(0).at(0);
  EXPECT_EQ(translation.text, translator.target_tokenizer().decode(best.tokens));
  std::filesystem::remove(path + "/target.spm");
  EXPECT_THROW(Translator::load(path), IoError);
}

TEST(Translator, SettingsOfMarianThatChangeIdsAreRefused) {
  const test::TemporaryFolder folder;
  const std::string path = folder_of_marian(folder), file = path + "/tokenizer_config.json";
  const auto refusal = [&](const std::string& settings) {
    std::ofstream(file) << settings;
    try {
      Translator::load(path);
    } catch (const FormatError& error) {
      return std::string(error.what()).substr(file.size() + 2);
    }
    return std::string("accepted");
  };
  EXPECT_EQ(
      refusal(R"({"source_lang": "en", "target_lang": "de", "eos_token": "</s>", "pad_token": {"content": "<pad>"},
                        "unk_token": "<unk>", "sp_model_kwargs": {}, "separate_vocabs": false,
                        "added_tokens_decoder": {"0": {"content": "</s>", "lstrip": false}, "40": {"content": "<pad>"}},
                        "additional_special_tokens": null, "tokenizer_class": "MarianTokenizer"})"),
      "accepted");
  EXPECT_EQ(refusal(R"({"eos_token": "<eos>"})"), R"(eos_token must be "</s>"; others are not supported)");
  EXPECT_EQ(refusal(R"({"pad_token": {"content": "x"}})"),
            R"(pad_token.content must be "<pad>"; others are not supported)");
  EXPECT_EQ(refusal(R"({"sp_model_kwargs": {"enable_sampling": true}})"),
            "sp_model_kwargs must be {}; others are not supported");
  EXPECT_EQ(refusal(R"({"separate_vocabs": true})"), "separate_vocabs must be false; others are not supported");
  EXPECT_EQ(
      refusal(R"({"added_tokens_decoder": {"7": {"content": "</s>"}}})"),
      R"(added_tokens_decoder.7 is "</s>"; only </s>, <unk> and <pad> with their ids in vocab.json are supported)");
  EXPECT_EQ(refusal(R"({"added_tokens_decoder": {"0": {"content": "</s>", "lstrip": true}}})"),
            "added_tokens_decoder.0.lstrip must be false; others are not supported");
}

// Greedily CTranslate2 agrees; its beams end by another rule (docs/semantics.md).
TEST(Translator, TheShippedModelIsThatOfTransformersAndGreedilyOfCTranslate2) {
  const Json expected = golden("shipped");
  expect_texts(QKV_SOURCE_DIR "/models/en-es", expected);
  EXPECT_EQ(expected.at("greedy"), expected.at("ctranslate2").at("greedy"));
  std::size_t same = 0;
  for (std::size_t i = 0; i < expected.at("texts").size(); ++i) {
    same += expected.at("beams")[i] == expected.at("ctranslate2").at("beams")[i] ? 1 : 0;
  }
  EXPECT_EQ(same, expected.at("texts").size() - 1);
}

// Byte-level pairs, and a first token that is forced.
TEST(Translator, ABartReadsAndWritesText) { expect_texts(kGolden + "bart_text", golden("bart_text")); }

// Unigrams, and renormalize_logits.
TEST(Translator, AFolderLikeThoseOfOpusReadsAndWritesText) { expect_texts(kGolden + "opus_text", golden("opus_text")); }

TEST(Translator, EachSideMayHaveItsOwnVocabulary) { expect_texts(kGolden + "opus_separate", golden("opus_separate")); }

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
  EXPECT_TRUE(found.sentences.empty());  // it is one
}

// What a text that does not fit must become: each of its sentences alone, and all of them together.
TEST(Translator, ATextThatDoesNotFitIsSplit) {
  const Translator translator = Translator::load(kGolden + "bart_text");
  std::string long_one = "Good night";
  while (translator.tokenizer().encode(long_one).ids.size() <= 24) long_one += " you";
  const std::vector<std::string> sentences = {"Thank you.", "You are welcome!", long_one + ".", "Good morning"};
  const std::string text = "Thank you. You are welcome!  " + long_one + ". Good morning";
  ASSERT_EQ(translator.sentences(text), sentences);
  const TranslateOptions options{.beams = 3, .length_penalty = 0.5, .nbest = 3};
  const std::vector<std::string> texts = {"Good night", text};
  const auto whole = translator.translate(texts, options);
  const auto parts = translator.translate(sentences, options);
  EXPECT_TRUE(whole[0][0].sentences.empty());
  ASSERT_EQ(whole[1].size(), 3u);
  for (std::size_t n = 0; n < 3; ++n) {
    const Translation& all = whole[1][n];
    ASSERT_EQ(all.sentences.size(), 4u);
    std::string joined;
    std::vector<std::int32_t> ids;
    double log_probability = 0;
    for (std::size_t s = 0; s < 4; ++s) {
      const Translation& one = all.sentences[s];
      EXPECT_EQ(one.source, sentences[s]);
      EXPECT_EQ(one.text, parts[s][n].text);
      EXPECT_EQ(one.score, parts[s][n].score);
      EXPECT_EQ(one.cut > 0, s == 2);
      joined += (s == 0 ? "" : " ") + one.text;
      ids.insert(ids.end(), one.ids.begin(), one.ids.end());
      log_probability += one.score * std::sqrt(static_cast<double>(one.ids.size()));
    }
    EXPECT_EQ(all.text, joined);
    EXPECT_EQ(all.ids, ids);
    EXPECT_EQ(all.source, text);
    EXPECT_NEAR(all.score, log_probability / std::sqrt(static_cast<double>(ids.size())), 1e-9);
    EXPECT_EQ(all.cut, all.sentences[2].cut);
  }
  TranslateOptions cut = options;
  cut.split = false;
  const Translation beginning = translator.translate(texts, cut)[1][0];
  EXPECT_TRUE(beginning.sentences.empty());
  EXPECT_EQ(beginning.cut, static_cast<std::int64_t>(translator.tokenizer().encode(text).ids.size()) - 24);
}

// A text that fits stays whole, whatever marks it has; what has nothing but marks stays what it is.
TEST(Translator, OnlyATextThatDoesNotFitIsSplit) {
  const Translator translator = Translator::load(kGolden + "bart_text");
  EXPECT_EQ(translator.sentences("You! You. You?"), std::vector<std::string>{"You! You. You?"});
  EXPECT_TRUE(translator.translate("You! You. You?").sentences.empty());
  const std::string spaces(100, ' ');
  EXPECT_EQ(translator.sentences(spaces), std::vector<std::string>{spaces});
}

// Line i of a call has stream i, whichever batch it is in and whatever has no tokens before it; sentence s has part s.
TEST(Translator, EachLineDrawsFromItsOwnStream) {
  const Translator translator = Translator::load(kGolden + "bart_text");
  std::string split = "Good night, you! How are you? See you tomorrow. Good morning.";
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) texts.push_back(i % 7 == 0 ? "" : i % 50 == 1 ? split : "Good night");
  TranslateOptions options{.sampling = Sampling{.temperature = 3, .seed = 1}};
  const auto all = translator.translate(texts, options);
  std::vector<std::string> different;
  for (const std::size_t i : {1u, 2u, 6u, 8u, 101u, 299u}) {
    options.stream = {i, 0};
    EXPECT_EQ(translator.translate(texts[i], options).ids, all[i][0].ids) << i;
    const auto& sentences = all[i][0].sentences;
    for (std::size_t s = 0; s < sentences.size(); ++s) {
      options.stream = {i, static_cast<std::uint32_t>(s)};
      EXPECT_EQ(translator.translate(sentences[s].source, options).ids, sentences[s].ids) << i << ", " << s;
    }
    different.push_back(all[i][0].text);
  }
  EXPECT_EQ(all[1][0].sentences.size(), 4u);
  std::sort(different.begin(), different.end());
  EXPECT_EQ(std::unique(different.begin(), different.end()), different.end());
  // Ids, too: the second half of a call by itself.
  Sources sources(40, translator.tokenizer().encode("Good night").ids);
  options.stream = {0, 0};
  const auto drawn = translator.generate(sources, options);
  options.stream = {20, 0};
  const auto half = translator.generate(std::span(sources).subspan(20), options);
  for (std::size_t i = 0; i < half.size(); ++i) EXPECT_EQ(half[i][0].tokens, drawn[20 + i][0].tokens);
}

// The model has 32 positions, and writes without end.
TEST(Translator, NoTranslationIsLongerThanTheModelHasPositions) {
  const Translator translator = Translator::load(kGolden + "swish");
  const Json golden_model = golden("swish");
  const Sources sources{golden_model.at("sources")[0].get<std::vector<std::int32_t>>()};
  for (const std::int64_t max_length : {32, 33, 1000}) {
    const auto tokens = translator.generate(sources, {.beams = 1, .max_length = max_length})[0][0].tokens;
    ASSERT_EQ(tokens.size(), 32u);
    EXPECT_EQ(tokens.back(), 0);  // the end that its folder forces
  }
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

TEST(Translator, SeveralEndsMayStandInEitherConfig) {
  const test::TemporaryFolder folder;
  const auto changed = [&](const std::string& name, const std::string& file, const Json& ends) {
    const std::string path = folder / name;
    std::filesystem::copy(kGolden + "relu", path);
    Json config = Json::parse(std::ifstream(path + "/" + file));
    config["eos_token_id"] = ends;
    if (file == "config.json") {
      config.update(Json::parse(R"({"bad_words_ids": [[40]], "num_beams": 4})"));
      std::filesystem::remove(path + "/generation_config.json");
    }
    std::ofstream(path + "/" + file) << config;
    return Translator::load(path);
  };
  const Json golden_model = golden("relu");
  const Sources sources = golden_model.at("sources").get<Sources>();
  const std::int32_t other = golden_model.at("greedy")[3][0].get<std::int32_t>();
  const TranslateOptions options{.beams = 1, .max_length = 14};
  const auto one = changed("one", "config.json", {0, other}).generate(sources, options);
  const auto two = changed("two", "generation_config.json", {0, other}).generate(sources, options);
  EXPECT_EQ(one[3][0].tokens, std::vector<std::int32_t>{other});
  for (std::size_t i = 0; i < sources.size(); ++i) EXPECT_EQ(one[i][0].tokens, two[i][0].tokens);
  EXPECT_THROW(changed("none", "config.json", Json::array()), FormatError);
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
  refused("repetition_penalty", 0, "repetition_penalty");
  refused("early_stopping", "always", "early_stopping");
  refused("eos_token_id", Json::array({0, 41}), "eos_token_id");
  refused("eos_token_id", Json::array(), "eos_token_id");
  refused("renormalize_logits", 1, "renormalize_logits");
  refused("bad_words_ids", Json::array({Json::array()}), "bad_words_ids");
  refused("bad_words_ids", Json::array({Json::array({1, 41})}), "bad_words_ids");
  refused("decoder_start_token_id", 41, "decoder_start_token_id");
  refused("forced_eos_token_id", 41, "forced_eos_token_id");
  refused("forced_bos_token_id", 41, "forced_bos_token_id");
  refused("max_length", 1, "max_length");
}

}  // namespace
}  // namespace qkv
