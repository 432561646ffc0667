// Every key of a config, changed beside the checkpoints of a finished training: which make it another training, which
// need --change, and which resume (docs/semantics.md).
#include "io/files_for_test.h"
#include "lab/models/recurrent_family.h"
#include "qkv/train/train_classifier.h"
#include "qkv/train/train_files.h"
#include "qkv/train/train_translator.h"
#include "train/checkpoints.h"
#include "train/config/classifier_config.h"
#include "train/config/language_config.h"
#include "train/config/sentence_config.h"
#include "train/config/text_config.h"
#include "train/config/train_config.h"
#include "train/language_files.h"
#include "train/picture_files.h"
#include "train/text_files.h"
#include "train/translator_files.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

enum class Answer { another, change, resumes };

// By "section.key": another value, and what comes of it.
using ChangedKeys = std::map<std::string, std::pair<Json, Answer>>;

const ChangedKeys kOfTraining = {{"training.steps", {13, Answer::resumes}},
                                 {"training.epochs", {100, Answer::resumes}},
                                 {"training.rate", {0.03, Answer::change}},
                                 {"training.schedule", {"cosine", Answer::change}},
                                 {"training.warmup", {6, Answer::change}},
                                 {"training.accumulate", {2, Answer::change}},
                                 {"training.clip", {2, Answer::change}},
                                 {"training.precision", {"reduced", Answer::change}},
                                 {"training.label_smoothing", {0.2, Answer::change}},
                                 {"training.optimizer", {"adamw", Answer::change}},
                                 {"training.beta1", {0.8, Answer::change}},
                                 {"training.beta2", {0.9, Answer::change}},
                                 {"training.epsilon", {1e-6, Answer::change}},
                                 {"training.weight_decay", {0.1, Answer::change}},
                                 {"training.seed", {2, Answer::another}},
                                 {"training.log_every", {2, Answer::resumes}},
                                 {"training.validate_every", {6, Answer::change}},
                                 {"training.checkpoint_minutes", {1, Answer::resumes}},
                                 {"training.patience", {1, Answer::change}},
                                 {"training.average", {1, Answer::change}}};

// Of translators. Longest sides have nine tokens: some pairs of the training are too long.
const ChangedKeys kOfTranslators = {{"model.dropout", {0.2, Answer::change}},
                                    {"model.dtype", {"bf16", Answer::resumes}},
                                    {"tokenizer.vocab", {290, Answer::another}},
                                    {"tokenizer.vocabularies", {"separate", Answer::another}},
                                    {"training.batch_tokens", {100, Answer::change}},
                                    {"training.max_length", {20, Answer::another}},
                                    {"training.long_pairs", {"truncate", Answer::another}}};

template <class Keys, class Train>
void expect_answers(const Keys& keys, std::initializer_list<const ChangedKeys*> changes, const Json& config,
                    const test::TemporaryFolder& folder, const Train& train) {
  folder.put("config.json", config.dump());
  train();
  ChangedKeys all;
  for (const ChangedKeys* some : changes) all.insert(some->begin(), some->end());
  EXPECT_EQ(all.size(), keys.size());
  fs::copy(folder / "out", folder / "finished", fs::copy_options::recursive);
  for (const auto& key : keys) {
    const std::string name = key.section.empty() ? key.name : key.section + "." + key.name;
    ASSERT_TRUE(all.contains(name)) << name;
    const auto& [value, answer] = all.at(name);
    Json changed = config;
    (key.section.empty() ? changed : changed[key.section])[key.name] = value;
    folder.put("config.json", changed.dump());
    fs::remove_all(folder / "out");
    fs::copy(folder / "finished", folder / "out", fs::copy_options::recursive);
    if (answer == Answer::resumes) {
      EXPECT_NO_THROW(train()) << name;
      continue;
    }
    const std::string message = test::message_of<std::invalid_argument>(train);
    const std::string reason =
        answer == Answer::another ? "belongs to another training (" : "other settings (" + std::string(key.name);
    EXPECT_NE(message.find(reason), std::string::npos) << name << ": " << message;
  }
}

Json config_of(const char* text) {
  Json config = Json::parse(text);
  config["training"].update({{"steps", 12}, {"validate_every", 4}, {"average", 2}});
  return config;
}

TEST(Resuming, ATransformerWithEachKeyChanged) {
  const test::TemporaryFolder folder;
  const TrainTranslatorFiles files = test::tiny_training(folder);
  Json config = config_of(test::kTinyConfig);
  config["training"]["max_length"] = 9;
  const ChangedKeys own = {{"model.model_dim", {32, Answer::another}},
                           {"model.heads", {4, Answer::another}},
                           {"model.ff_dim", {16, Answer::another}},
                           {"model.encoder_layers", {2, Answer::another}},
                           {"model.decoder_layers", {2, Answer::another}},
                           {"model.encoder_heads", {4, Answer::another}},
                           {"model.decoder_heads", {4, Answer::another}},
                           {"model.encoder_ff_dim", {16, Answer::another}},
                           {"model.decoder_ff_dim", {16, Answer::another}},
                           {"model.kind", {"bart", Answer::another}},
                           {"model.position_kind", {"rotary", Answer::another}},
                           {"model.norm_order", {"pre", Answer::another}},
                           {"model.normalization", {"rms", Answer::another}},
                           {"model.activation", {"gelu", Answer::another}},
                           {"model.positions", {32, Answer::another}}};
  expect_answers(training::train_keys(), {&own, &kOfTranslators, &kOfTraining}, config, folder,
                 [&] { train_translator(files); });
}

TEST(Resuming, ARecurrentTranslatorWithEachKeyChanged) {
  const test::TemporaryFolder folder;
  const TrainTranslatorFiles files = test::tiny_training(folder);
  Json config = config_of(test::kTinyConfig);
  config["model"] = {{"attention", "additive"}, {"model_dim", 16}, {"positions", 24}, {"dropout", 0.1}};
  config["training"]["max_length"] = 9;
  const ChangedKeys own = {{"model.attention", {"dot", Answer::another}}, {"model.cell", {"lstm", Answer::another}},
                           {"model.model_dim", {32, Answer::another}},    {"model.layers", {2, Answer::another}},
                           {"model.directions", {2, Answer::another}},    {"model.positions", {32, Answer::another}}};
  expect_answers(recurrent_family().keys(), {&own, &kOfTranslators, &kOfTraining}, config, folder,
                 [&] { train_translator(files); });
}

TEST(Resuming, AClassifierWithEachKeyChanged) {
  const test::TemporaryFolder folder;
  const TrainClassifierFiles files{.config = folder / "config.json",
                                   .train = folder.put("train.csv", test::stripes(60, 1)),
                                   .valid = folder.put("valid.csv", test::stripes(20, 2)),
                                   .out = folder / "out"};
  const ChangedKeys own = {{"model.picture", {12, Answer::another}},        {"model.patch", {2, Answer::another}},
                           {"model.model_dim", {16, Answer::another}},      {"model.heads", {4, Answer::another}},
                           {"model.ff_dim", {8, Answer::another}},          {"model.layers", {2, Answer::another}},
                           {"model.activation", {"relu", Answer::another}}, {"model.dropout", {0.2, Answer::change}},
                           {"model.dtype", {"bf16", Answer::resumes}},      {"pictures.largest", {12, Answer::another}},
                           {"pictures.shift", {0, Answer::another}},        {"training.batch", {8, Answer::change}}};
  expect_answers(training::classifier_keys().keys, {&own, &kOfTraining}, config_of(test::kStripesConfig), folder,
                 [&] { train_classifier(files); });
}

TEST(Resuming, ALanguageModelWithEachKeyChanged) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_language(folder);
  files.config = folder / "config.json";
  const ChangedKeys own = {
      {"kind", {"language", Answer::resumes}},         {"model.model_dim", {32, Answer::another}},
      {"model.heads", {4, Answer::another}},           {"model.kv_heads", {2, Answer::another}},
      {"model.ff_dim", {16, Answer::another}},         {"model.layers", {2, Answer::another}},
      {"model.activation", {"gelu", Answer::another}}, {"model.positions", {256, Answer::another}},
      {"model.dropout", {0.2, Answer::change}},        {"model.dtype", {"bf16", Answer::resumes}},
      {"tokenizer.vocab", {265, Answer::another}},     {"training.batch_tokens", {100, Answer::change}},
      {"training.max_length", {20, Answer::another}},  {"training.long_texts", {"refuse", Answer::resumes}}};
  Json config = config_of(test::kTinyLanguage);
  config["model"]["positions"] = 128;
  config["training"]["max_length"] = 100;  // no document is longer
  expect_answers(training::language_keys().keys, {&own, &kOfTraining}, config, folder, [&] { train_files(files); });
}

TEST(Resuming, AFineTuningWithEachKeyChanged) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_texts(folder);
  files.config = folder / "config.json";
  const ChangedKeys own = {
      {"kind", {"classes", Answer::resumes}},   {"problem_type", {"multi_label_classification", Answer::another}},
      {"model.dropout", {0.2, Answer::change}}, {"model.dtype", {"bf16", Answer::resumes}},
      {"training.batch", {16, Answer::change}}, {"training.max_length", {4, Answer::another}}};
  expect_answers(training::text_keys().keys, {&own, &kOfTraining}, config_of(test::kTinyTexts), folder,
                 [&] { train_files(files); });
}

TEST(Resuming, ATrainingOnPairsThatBelongTogetherWithEachKeyChanged) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_sentences(folder);
  const Json config = config_of(test::slurp(files.config).c_str());
  files.config = folder / "config.json";
  const ChangedKeys own = {
      {"kind", {"contrast", Answer::resumes}},         {"model.pooling", {"first", Answer::another}},
      {"model.dropout", {0.2, Answer::change}},        {"model.dtype", {"bf16", Answer::resumes}},
      {"training.batch", {5, Answer::change}},         {"training.chunk", {2, Answer::change}},
      {"training.temperature", {0.1, Answer::change}}, {"training.max_length", {3, Answer::another}}};
  expect_answers(training::sentence_keys().keys, {&own, &kOfTraining}, config, folder, [&] { train_files(files); });

  // Of before, when texts of a batch had like lengths.
  const training::RunIdentity now = training::read_state(folder / "finished/checkpoints/step-000000012").identity;
  training::RunIdentity before = now;
  EXPECT_EQ(before.settings.erase("lengths in a batch"), 1u);
  EXPECT_EQ(to_text(training::changes_of(before, now, 12, "")), "lengths in a batch nothing -> any");
}

// Three sizes of a vocabulary: the one of the tokenizer decides, where one is given.
TEST(Resuming, OnlyALearnedVocabularyHasASize) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  const Json config = config_of(test::kTinyConfig);
  const auto with_vocab = [&](int vocab) {
    Json changed = config;
    changed["tokenizer"]["vocab"] = vocab;
    folder.put("config.json", changed.dump());
  };
  folder.put("config.json", config.dump());
  train_translator(files);
  for (const int vocab : {500, 7}) {
    with_vocab(vocab);
    test::expect_refusal<std::invalid_argument>([&] { train_translator(files); },
                                                "(tokenizer.vocab 280 -> " + std::to_string(vocab) + ")");
  }
  files.tokenizer = folder.put("given.json", test::slurp(folder / "out/tokenizer.json"));
  EXPECT_NO_THROW(train_translator(files));
  files.out = folder / "of_given";
  with_vocab(280);
  train_translator(files);
  with_vocab(300);
  EXPECT_NO_THROW(train_translator(files));
  files.tokenizer.clear();
  EXPECT_NO_THROW(train_translator(files));
}

}  // namespace
}  // namespace qkv
