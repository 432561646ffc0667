// Configs of trainings: values, a refusal for each rule, the table of keys, which the documentation has. Every option
// of a model that a config can ask for, and every kind of recurrent translator: it trains, goes on after an
// interruption with the same bits, and its folder opens again, translates and, of the latter, is explained.
#include "train/config/train_config.h"

#include "io/files_for_test.h"
#include "lab/models/recurrent_family.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/translated_text.h"
#include "qkv/pipelines/translator.h"
#include "qkv/train/train_translator.h"
#include "train/config/classifier_config.h"
#include "train/config/language_config.h"
#include "train/config/sentence_config.h"
#include "train/config/text_config.h"
#include "train/translator_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

[[maybe_unused]] const bool kWithRecurrent = (add_recurrent_family(), true);

using training::read_train_config;
using training::train_keys;
using training::TrainConfig;
using training::TrainKey;

const std::string kSmallest =
    R"({"model": {"model_dim": 8, "heads": 2, "ff_dim": 16, "encoder_layers": 1, "decoder_layers": 2},
 "tokenizer": {"vocab": 300}, "training": {"steps": 500, "rate": 0.25}})";

std::string with(const std::string& from, const std::string& to) { return test::edited(kSmallest, from, to); }

TrainConfig read_text(const std::string& text) {
  const test::TemporaryFolder folder;
  return read_train_config(folder.put("c", text));
}

const TransformerEncoderDecoderConfig& model_of(TrainConfig& config) {
  return training::model_config<TransformerEncoderDecoder>(config);
}

TEST(TrainConfig, ReadsTheSmallest) {
  TrainConfig config = read_text(kSmallest);
  EXPECT_TRUE(model_of(config) == (TransformerEncoderDecoderConfig{.positions = 512,
                                                                   .model_dim = 8,
                                                                   .encoder_layers = 1,
                                                                   .decoder_layers = 2,
                                                                   .encoder_heads = 2,
                                                                   .decoder_heads = 2,
                                                                   .encoder_ff_dim = 16,
                                                                   .decoder_ff_dim = 16}));
  EXPECT_EQ(config.vocab, 300);
  EXPECT_EQ(config.training.steps, 500);
  EXPECT_EQ(config.training.schedule.rate, 0.25);
  EXPECT_EQ(read_text(with("\"steps\": 500", "\"epochs\": 3")).training.epochs, 3);
}

TEST(TrainConfig, ReadsEveryKey) {
  TrainConfig config = read_text(R"({
 "model": {"model_dim": 8, "heads": 2, "ff_dim": 16, "encoder_layers": 1, "decoder_layers": 2, "activation": "silu",
           "positions": 40, "encoder_heads": 4, "decoder_heads": 1, "encoder_ff_dim": 5, "decoder_ff_dim": 6,
           "kind": "bart", "norm_order": "pre", "normalization": "rms", "position_kind": "rotary", "dropout": 0.5,
           "dtype": "f16"},
 "tokenizer": {"vocab": 300, "vocabularies": "separate"},
 "training": {"seed": 9, "steps": 10, "batch_tokens": 11, "accumulate": 12, "log_every": 13, "validate_every": 14,
              "patience": 15, "average": 16, "warmup": 17, "epochs": 18, "max_length": 30,
              "checkpoint_minutes": 0.5, "clip": 0.125, "beta1": 0.25, "beta2": 0.75, "epsilon": 0.0625,
              "weight_decay": 2, "rate": 3, "label_smoothing": 0.375,
              "optimizer": "adamw", "schedule": "cosine", "long_pairs": "truncate"}
})");
  EXPECT_TRUE(model_of(config) == (TransformerEncoderDecoderConfig{.kind = TransformerEncoderDecoderKind::bart,
                                                                   .positions = 40,
                                                                   .model_dim = 8,
                                                                   .encoder_layers = 1,
                                                                   .decoder_layers = 2,
                                                                   .encoder_heads = 4,
                                                                   .decoder_heads = 1,
                                                                   .encoder_ff_dim = 5,
                                                                   .decoder_ff_dim = 6,
                                                                   .activation = Activation::silu,
                                                                   .norm_order = NormOrder::pre,
                                                                   .normalization = Normalization::rms,
                                                                   .position_kind = TransformerPositions::rotary}));
  const TrainingConfig& t = config.training;
  EXPECT_EQ(t.seed, 9u);
  EXPECT_EQ((std::vector<std::int64_t>{t.steps, t.batch_tokens, t.accumulate, t.log_every, t.validate_every, t.patience,
                                       t.average, t.schedule.warmup, t.epochs, config.max_length}),
            (std::vector<std::int64_t>{10, 11, 12, 13, 14, 15, 16, 17, 18, 30}));
  EXPECT_EQ((std::vector<double>{t.checkpoint_minutes, t.clip, t.adam.beta1, t.adam.beta2, t.adam.epsilon,
                                 t.adam.weight_decay, t.schedule.rate, config.label_smoothing, config.dropout}),
            (std::vector<double>{0.5, 0.125, 0.25, 0.75, 0.0625, 2, 3, 0.375, 0.5}));
  EXPECT_EQ(t.adam.decay, WeightDecay::decoupled);
  EXPECT_EQ(t.schedule.decay, Decay::cosine);
  EXPECT_EQ(config.long_pairs, training::LongPairs::truncate);
  EXPECT_EQ(config.vocabularies, training::Vocabularies::separate);
  EXPECT_EQ(config.dtype, Dtype::f16);
}

TEST(TrainConfig, ReadsThoseThatAreShipped) {
  TrainConfig shipped = read_train_config(QKV_SOURCE_DIR "/configs/en-es.json");
  EXPECT_EQ(model_of(shipped).model_dim, 256);
}

TEST(TrainConfig, RefusesTheRest) {
  // A recurrent translator.
  const auto recurrent = [](const std::string& keys) {
    return R"({"model": {"model_dim": 15, )" + keys +
           R"(}, "tokenizer": {"vocab": 300}, "training": {"steps": 1, "rate": 1}})";
  };
  const auto plus = [](const std::string& keys) { return with("\"rate\": 0.25", "\"rate\": 1, " + keys); };
  test::expect_refused(
      {{with("\"steps\"", "\"step\": 1, \"steps\""), "training.step is unknown; known are accumulate, average"},
       {with("\"ff_dim\"", "\"dropuot\": 0, \"ff_dim\""), "model.dropuot is unknown"},
       {with("\"vocab\"", "\"size\": 1, \"vocab\""), "tokenizer.size is unknown; known are vocab"},
       {with("{\"model\"", "{\"data\": {}, \"model\""), "data is unknown; known are model, tokenizer, training"},
       {with("\"rate\": 0.25", "\"seed\": 1"), "training.rate is missing"},
       {with("\"rate\": 0.25", "\"rate\": -1"), "training.rate must be 0 or more"},
       {plus("\"beta1\": 1"), "training.beta1 must be below 1"},
       {plus("\"optimizer\": \"sgd\""), "training.optimizer must be one of adam, adamw"},
       {plus("\"max_length\": 513"), "training.max_length is 513"},
       {plus("\"max_length\": 1"), "training.max_length is 1"},
       {plus("\"long_pairs\": \"cut\""), "training.long_pairs must be one of leave_out, truncate"},
       {with("\"heads\": 2", "\"heads\": 3"), "model.heads is 3, must divide model_dim, 8"},
       {with("\"heads\": 2", "\"heads\": 2, \"encoder_heads\": 3"),
        "model.encoder_heads is 3, must divide model_dim, 8"},
       {with("\"heads\": 2", "\"heads\": 8, \"position_kind\": \"rotary\""),
        "model.heads is 8: rotary positions need an even"},
       {with("\"heads\": 2", "\"heads\": 2, \"kind\": \"t5\""), "model.kind must be one of marian, bart"},
       {recurrent("\"attention\": \"multiplied\""), "model.attention must be one of fixed, additive, dot, bilinear"},
       {recurrent("\"attention\": \"dot\", \"cell\": \"rnn\""),
        "model.cell must be one of rnn_tanh, rnn_relu, lstm, gru"},
       {recurrent("\"attention\": \"dot\", \"directions\": 2"),
        "model.model_dim must be even: the encoder has two directions"},
       {recurrent("\"attention\": \"dot\", \"directions\": 3"), "model.directions is 3, must be 1 to 2"},
       {recurrent("\"attention\": \"dot\", \"heads\": 2"), "model.heads is unknown; known are attention, cell"},
       {plus("\"batch_tokens\": 0"), "training.batch_tokens is 0, must be 1 to"},
       {with("\"steps\": 500", "\"steps\": 20.5"), "training.steps must be an integer, is 20.5"},
       {with("\"steps\": 500", "\"steps\": 0"), "training must have steps or epochs above 0"},
       {with("\"steps\": 500", "\"seed\": 0"), "training must have steps or epochs above 0"},
       {with("\"model_dim\": 8", "\"model_dim\": \"8\""), "model.model_dim must be an integer"}},
      "config", [](const std::string& path) { read_train_config(path); });
}

TEST(TrainKeys, AreThoseOfTheDocumentation) {
  const std::string page = test::slurp(QKV_SOURCE_DIR "/docs/training.md");
  test::expect_contains(page, "<!-- keys -->\n" + training::train_keys_markdown() + "<!-- end of keys -->");
  test::expect_contains(page, "<!-- keys of a recurrent translator -->\n" +
                                  training::own_keys_markdown(recurrent_family()) + "<!-- end of keys of a recurrent");
  test::expect_contains(page, training::classifier_keys().markdown());
  test::expect_contains(page, training::language_keys().markdown());
  test::expect_contains(page, training::text_keys().markdown());
  test::expect_contains(page, training::sentence_keys().markdown());
}

TEST(TrainKeys, AreInTheHelp) {
  const std::string text = training::train_keys_text();
  for (const TrainKey& key : train_keys()) test::expect_contains(text, "\n  " + key.name + " ");
  for (const char* section : {"model", "tokenizer", "training"}) {
    test::expect_contains(text, fmt::format("\n\"{}\"\n", section));
  }
}

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
  if (separate) {  // each learns its own side: "three" is in the source
    EXPECT_NE(test::slurp(files.out + "/tokenizer.json").find("ee\""), std::string::npos);
    EXPECT_EQ(test::slurp(files.out + "/target_tokenizer.json").find("ee\""), std::string::npos);
  }

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

TEST(TrainOptions, ATargetTokenizerNeedsASeparateVocabulary) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  files.target_tokenizer = files.config;
  test::expect_refusal<std::invalid_argument>([&] { train_translator(files); },
                                              "set tokenizer.vocabularies to \"separate\"");
  EXPECT_FALSE(std::filesystem::exists(files.out));
}

TEST(TrainSeq2Seq, EachTrainsAndResumes) {
  for (const std::string keys :
       {R"("attention": "fixed", "cell": "gru")", R"("attention": "additive", "cell": "lstm", "directions": 2)",
        R"("attention": "dot", "cell": "rnn_tanh", "layers": 2)",
        R"("attention": "bilinear", "cell": "lstm", "directions": 2, "layers": 2)"}) {
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
      EXPECT_EQ(test::message_of<std::invalid_argument>([&] { TranslatedText(translator, "one two"); }),
                "explain: the model has no attention: its decoder sees one vector of the whole source");
      continue;
    }
    const TranslatedText text(translator, "three two");
    EXPECT_EQ(text.attentions().alignment->output_text, "tres dos");
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
