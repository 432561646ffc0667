// Every option of a model that a config can ask for, and every kind of recurrent translator: it trains, goes on after
// an interruption with the same bits, and its folder opens again, translates and, of the latter, is explained.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "io/files_for_test.h"
#include "qkv/error.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/translated_text.h"
#include "qkv/files.h"
#include "qkv/models/marian.h"
#include "qkv/models/translator.h"
#include "qkv/train/train_translator.h"
#include "train/translator_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

using test::message_of;

// Of `model`'s keys behind those of every model of 16 dimensions.
std::string options_config(const std::string& model, int steps, const std::string& tokenizer = "") {
  return R"({"model": {"model_dim": 16, "positions": 24, "dropout": 0.1, )" + model +
         R"(}, "tokenizer": {"vocab": 280)" + tokenizer + R"(}, "training": {"steps": )" + std::to_string(steps) +
         R"(, "batch_tokens": 200, "rate": 0.02, "schedule": "cosine", "warmup": 5, "clip": 1, "log_every": 5,
           "validate_every": )" +
         std::to_string((steps + 1) / 2) + "}}";
}

// Eight updates, whole and in two parts; `type` of a model that no class of transformers fits.
void expect_trains(const std::string& config, const std::string& type) {
  SCOPED_TRACE(config);
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  files.config = folder.put("config.json", config);
  test::Watcher watcher;
  const TrainingResult result = train_translator(files, {.observer = &watcher});
  EXPECT_LT(result.best_loss, watcher.validations.front().loss);  // it learns
  const std::string notice =
      "no class of transformers fits this model: its model_type is \"" + type + "\", which only qkv opens";
  EXPECT_EQ(std::ranges::count(watcher.notices, notice), type.empty() ? 0 : 1);
  const std::string whole = test::slurp(files.out + "/model.safetensors");
  const Translation before = Translator::load(files.out).translate("one two three");
  EXPECT_LT(before.score, 0);
  const bool separate = config.find("separate") != std::string::npos;
  EXPECT_EQ(std::filesystem::exists(files.out + "/target_tokenizer.json"), separate);
  EXPECT_EQ(Translator::load(files.out).model().tokens().target_vocab > 0, separate);

  files.out = folder / "interrupted";
  EXPECT_THROW(train_translator(files, test::Stopper(5).options()), Stopped);
  train_translator(files);
  EXPECT_EQ(test::slurp(files.out + "/model.safetensors"), whole);
  EXPECT_EQ(Translator::load(files.out).translate("one two three").ids, before.ids);
}

TEST(TrainOptions, EachTrains) {
  const std::string separate = ", \"vocabularies\": \"separate\"",
                    all = R"("norm_order": "pre", "normalization": "rms", "position_kind": "rotary")";
  for (const auto& [model, tokenizer, type] : std::vector<std::array<std::string, 3>>{
           {R"("kind": "bart")", "", ""},
           {R"("activation": "gelu")", separate, ""},
           {R"("norm_order": "pre", "encoder_heads": 4, "decoder_ff_dim": 24)", "", "qkv"},
           {R"("normalization": "rms", "activation": "silu")", "", "qkv"},
           {R"("position_kind": "rotary", "decoder_heads": 1, "encoder_ff_dim": 40)", "", "qkv"},
           {R"("kind": "bart", )" + all, separate, "qkv"}}) {
    const std::string sizes = R"("heads": 2, "ff_dim": 32, "encoder_layers": 1, "decoder_layers": 1, )";
    expect_trains(options_config(sizes + model, 8, tokenizer), type);
  }
}

TEST(TrainOptions, RefusesWhatDoesNotFit) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  files.target_tokenizer = files.config;
  test::expect_refusal<std::invalid_argument>([&] { train_translator(files); },
                                              "set tokenizer.vocabularies to \"separate\"");
  files = test::tiny_training(folder);
  files.config = folder.put("config.json", options_config("\"attention\": \"dot\", \"directions\": 3", 2));
  test::expect_refusal<FormatError>([&] { train_translator(files); }, "model.directions is 3, must be 1 to 2");
  EXPECT_FALSE(std::filesystem::exists(files.out));
}

TEST(TrainSeq2Seq, EachTrainsAndResumes) {
  for (const std::string keys :
       {R"("attention": "fixed", "cell": "gru")", R"("attention": "additive", "cell": "lstm", "directions": 2)",
        R"("attention": "dot", "cell": "rnn_tanh", "layers": 2)",
        R"("attention": "bilinear", "cell": "gru_reset_first", "directions": 2, "layers": 2)"}) {
    expect_trains(options_config(keys, 8), "qkv-seq2seq");
  }
}

TEST(TrainSeq2Seq, LearnsAnAlignmentThatIsExplained) {
  for (const std::string kind : {"additive", "dot", "bilinear", "fixed"}) {
    SCOPED_TRACE(kind);
    const test::TemporaryFolder folder;
    TrainTranslatorFiles files = test::tiny_training(folder);
    files.valid = files.train;  // the model that is kept knows its pairs, whatever the target's bits
    files.config =
        folder.put("config.json", options_config("\"attention\": \"" + kind + "\"", kind == "fixed" ? 2 : 400));
    train_translator(files);
    const Translator translator = Translator::load(files.out);
    if (kind == "fixed") {
      EXPECT_EQ(message_of<std::invalid_argument>([&] { TranslatedText(translator, "one two"); }),
                "explain: the model has no attention: its decoder sees one vector of the whole source");
      continue;
    }
    const TranslatedText text(translator, "three two");
    EXPECT_EQ(text.attentions().alignment->target_text, "tres dos");
    const HeadSurvey survey = survey_heads(text, {.keep_weights = true});
    ASSERT_EQ(survey.heads.size(), 1u);
    const TensorView words = survey.word_weights;
    ASSERT_EQ(words.shape(), (Dims{2, 2}));
    EXPECT_GT(words.at<double>({0, 0}), words.at<double>({0, 1}));

    const HeadTrace trace = trace_head(text, {});
    EXPECT_LT(trace.logits_difference, 2e-5);
    EXPECT_LT(trace.output_difference, 1e-6);
    // The score by hand: of what the observer saw, as the formula says.
    double score = 0;
    for (std::int64_t e = 0; e < 16; ++e) {
      const double q = trace.query.view().at<double>({0, e}), k = trace.key.view().at<double>({1, e});
      score += kind == "additive" ? trace.v.view().at<double>({e}) * std::tanh(q + k) : q * k;
    }
    EXPECT_NEAR(trace.logits.view().at<double>({0, 1}), score, 2e-5);
    const std::string shown = to_text(trace, 0);
    test::expect_contains(shown, kind == "additive" ? "score = v . tanh(query + key)" : "score = query . key");
    EXPECT_EQ(shown.find("1/sqrt"), std::string::npos);
  }
}

}  // namespace
}  // namespace qkv
