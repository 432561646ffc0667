// Every option of a model that a config can ask for, and every kind of recurrent translator: it trains, goes on after
// an interruption with the same bits, and its folder opens again, translates and, of the latter, is explained.
#include <gtest/gtest.h>

#include <algorithm>
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

// Eight updates, whole and in two parts; the notices of the former.
std::vector<std::string> expect_trains(const std::string& config) {
  SCOPED_TRACE(config);
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  files.config = folder.put("config.json", config);
  test::Watcher watcher;
  const TrainingResult result = train_translator(files, {.observer = &watcher});
  EXPECT_LT(result.best_loss, watcher.validations.front().loss);  // it learns
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
  return watcher.notices;
}

TEST(TrainOptions, EachTrains) {
  struct Row {
    std::string model, tokenizer;
    bool has_class;  // in transformers
  };
  const std::string separate = ", \"vocabularies\": \"separate\"";
  for (const auto& [model, tokenizer, has_class] :
       {Row{R"("kind": "bart")", "", true},
        {R"("activation": "gelu")", separate, true},
        {R"("norm_order": "pre", "encoder_heads": 4, "decoder_ff_dim": 24)", "", false},
        {R"("normalization": "rms", "activation": "silu")", "", false},
        {R"("position_kind": "rotary", "decoder_heads": 1, "encoder_ff_dim": 40)", "", false},
        {R"("kind": "bart", "norm_order": "pre", "normalization": "rms", "position_kind": "rotary")", separate,
         false}}) {
    const std::string sizes = R"("heads": 2, "ff_dim": 32, "encoder_layers": 1, "decoder_layers": 1, )";
    const std::vector<std::string> notices = expect_trains(options_config(sizes + model, 8, tokenizer));
    const std::string notice =
        "no class of transformers fits this model: its model_type is \"qkv\", which only qkv opens";
    EXPECT_EQ(std::ranges::count(notices, notice), has_class ? 0 : 1) << model;
  }
}

TEST(TrainOptions, RefusesATokenizerForATargetWithoutOne) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  files.target_tokenizer = files.config;
  const std::string message = message_of<std::invalid_argument>([&] { train_translator(files); });
  EXPECT_NE(message.find("set tokenizer.vocabularies to \"separate\""), std::string::npos) << message;
  files = test::tiny_training(folder);
  files.config = folder.put("config.json", options_config("\"attention\": \"dot\", \"directions\": 3", 2));
  EXPECT_NE(message_of<FormatError>([&] { train_translator(files); }).find("model.directions is 3, must be 1 to 2"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(files.out));
}

TEST(TrainSeq2Seq, EachTrainsAndResumes) {
  const std::vector<std::string> kinds = {"fixed", "additive", "dot", "bilinear"},
                                 cells = {"gru", "lstm", "rnn_tanh", "gru_reset_first"};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string keys = "\"attention\": \"" + kinds[i] + "\", \"cell\": \"" + cells[i] +
                             "\", \"directions\": " + std::to_string(1 + i % 2) +
                             ", \"layers\": " + std::to_string(1 + i / 2);
    EXPECT_EQ(expect_trains(options_config(keys, 8)),
              std::vector<std::string>{
                  "no class of transformers fits this model: its model_type is \"qkv-seq2seq\", which only qkv opens"});
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
    EXPECT_NE(shown.find(kind == "additive" ? "score = v . tanh(query + key)" : "score = query . key"),
              std::string::npos);
    EXPECT_EQ(shown.find("1/sqrt"), std::string::npos);
  }
}

}  // namespace
}  // namespace qkv
