// Training recurrent translators: each kind and cell trains, resumes with the same bits, translates and is explained.
#include <gtest/gtest.h>

#include <cmath>

#include "io/files_for_test.h"
#include "qkv/error.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/translated_text.h"
#include "qkv/files.h"
#include "qkv/models/seq2seq.h"
#include "qkv/train/train_translator.h"
#include "train/translator_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

std::string recurrent_config(const std::string& keys, int steps) {
  return R"({"model": {"model_dim": 16, "positions": 24, "dropout": 0.1, )" + keys +
         R"(}, "tokenizer": {"vocab": 280}, "training": {"steps": )" + std::to_string(steps) +
         R"(, "batch_tokens": 200, "rate": 0.02, "schedule": "cosine", "warmup": 5, "clip": 1, "log_every": 5, "validate_every": 5}})";
}

TEST(TrainSeq2Seq, EachTrainsAndResumes) {
  const std::vector<std::string> kinds = {"fixed", "additive", "dot", "bilinear"},
                                 cells = {"gru", "lstm", "rnn_tanh", "gru_reset_first"};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string keys = "\"attention\": \"" + kinds[i] + "\", \"cell\": \"" + cells[i] +
                             "\", \"directions\": " + std::to_string(1 + i % 2) +
                             ", \"layers\": " + std::to_string(1 + i / 2);
    SCOPED_TRACE(keys);
    const test::TemporaryFolder folder;
    TrainTranslatorFiles files = test::tiny_training(folder);
    files.config = folder.put("config.json", recurrent_config(keys, 12));
    test::Watcher watcher;
    const TrainingResult result = train_translator(files, {.observer = &watcher});
    EXPECT_LT(result.best_loss, 0.9 * watcher.validations.front().loss);  // it learns
    ASSERT_EQ(watcher.notices.size(), 1u);
    EXPECT_EQ(watcher.notices.front(),
              "no class of transformers fits this model: its model_type is \"qkv-seq2seq\", which only qkv opens");

    const std::string whole = test::slurp(files.out + "/model.safetensors");
    const Translation before = Translator::load(files.out).translate("one two three");
    files.out = folder / "interrupted";
    EXPECT_THROW(train_translator(files, test::Stopper(7).options()), Stopped);
    train_translator(files);
    EXPECT_EQ(test::slurp(files.out + "/model.safetensors"), whole);
    EXPECT_EQ(Translator::load(files.out).translate("one two three").ids, before.ids);

    files.from = files.out;
    files.out = folder / "from";
    files.config = folder.put("config.json", recurrent_config(keys, 2));
    train_translator(files);
    files.config =
        folder.put("config.json", recurrent_config(keys.substr(0, keys.find("\"directions\"")) + "\"layers\": 3", 2));
    files.out = folder / "other";
    EXPECT_NE(test::message_of<FormatError>([&] { train_translator(files); }).find("config.json: differs from"),
              std::string::npos);
  }
}

TEST(TrainSeq2Seq, LearnsAnAlignmentThatIsExplained) {
  for (const std::string kind : {"additive", "dot", "bilinear", "fixed"}) {
    SCOPED_TRACE(kind);
    const test::TemporaryFolder folder;
    TrainTranslatorFiles files = test::tiny_training(folder);
    files.valid = files.train;  // the model that is kept knows its pairs, whatever the target's bits
    files.config =
        folder.put("config.json", recurrent_config("\"attention\": \"" + kind + "\"", kind == "fixed" ? 2 : 400));
    train_translator(files);
    const Translator translator = Translator::load(files.out);
    if (kind == "fixed") {
      EXPECT_EQ(test::message_of<std::invalid_argument>([&] { TranslatedText(translator, "one two"); }),
                "explain: the model has no attention: its decoder sees one vector of the whole source");
      continue;
    }
    const TranslatedText text(translator, "three two");
    const Alignment& alignment = *text.attentions().alignment;
    EXPECT_EQ(alignment.target_text, "tres dos");
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

TEST(TrainSeq2Seq, RefusesKeysThatDoNotFit) {
  const auto refused = [](const std::string& keys) {
    const test::TemporaryFolder folder;
    TrainTranslatorFiles files = test::tiny_training(folder);
    files.config = folder.put("config.json", recurrent_config(keys, 2));
    const std::string message = test::message_of<FormatError>([&] { train_translator(files); });
    EXPECT_FALSE(std::filesystem::exists(files.out));
    return message.substr(message.find("config.json: "));
  };
  EXPECT_EQ(refused("\"attention\": \"multiplied\""),
            "config.json: model.attention must be one of fixed, additive, dot, bilinear");
  EXPECT_EQ(refused("\"attention\": \"dot\", \"cell\": \"rnn\""),
            "config.json: model.cell must be one of rnn_tanh, rnn_relu, lstm, gru, gru_reset_first");
  EXPECT_EQ(refused("\"attention\": \"dot\", \"directions\": 3"), "config.json: model.directions is 3, must be 1 to 2");
  EXPECT_NE(refused("\"attention\": \"dot\", \"heads\": 2").find("model.heads is unknown; known are attention, cell"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv
