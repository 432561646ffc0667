// train_text() and train_sentences(): check files and folder, begin with an encoder, and train it with a head or by the
// vectors that it makes.
#include "qkv/train/train_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "core/refuse.h"
#include "qkv/files.h"
#include "qkv/models/sentence_encoder.h"
#include "qkv/models/text_model.h"
#include "qkv/stop.h"
#include "train/checkpoints.h"
#include "train/config/run_identity.h"
#include "train/config/sentence_config.h"
#include "train/config/text_config.h"
#include "train/data/labelled_texts.h"
#include "train/data/labelled_words.h"
#include "train/trained_with.h"

namespace qkv {
namespace {

using training::MaskedWords;
using training::SentenceConfig;
using training::SentenceExamples;
using training::TextConfig;
using training::TextExamples;

using TrainedText = training::TrainedWith<LabelledTokens, TextModel, TextConfig>;

// Hides words by the seed; those to validate with are always the same.
class TrainedWords : public TrainableOn<TokenBatch> {
 public:
  TrainedWords(TextModel& model, const TextConfig& config, const MaskedWords& words)
      : model_(model, config), words_(words), seed_(config.training.seed) {}

  LossSum loss(const TokenBatch& batch) const override {
    return model_.loss(training::mask_tokens(batch, words_, seed_));
  }
  LossSum backward(const TokenBatch& batch, std::uint64_t dropout_seed) override {
    return model_.backward(training::mask_tokens(batch, words_, dropout_seed), dropout_seed);
  }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override { walk(model_, scope); }

  TrainedText model_;
  const MaskedWords& words_;
  std::uint64_t seed_;
};

// The metric is 1 less the mean of the squared errors over the variance of the numbers to train on.
class TrainedNumbers : public TrainableOn<LabelledTokens> {
 public:
  TrainedNumbers(TextModel& model, const TextConfig& config, double variance)
      : model_(model, config), variance_(variance) {}

  std::string metric_name() const override { return "explained_variance"; }
  LossSum loss(const LabelledTokens& batch) const override { return measured(model_.loss(batch)); }
  LossSum backward(const LabelledTokens& batch, std::uint64_t dropout_seed) override {
    return measured(model_.backward(batch, dropout_seed));
  }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override { walk(model_, scope); }
  LossSum measured(LossSum sum) const {
    sum.metric = static_cast<double>(sum.count) - sum.sum / variance_;
    return sum;
  }

  TrainedText model_;
  double variance_;
};

double variance_of(const std::vector<float>& numbers) {
  double sum = 0, squares = 0;
  for (const double each : numbers) sum += each;
  const auto count = static_cast<double>(numbers.size());
  for (const double each : numbers) squares += (each - sum / count) * (each - sum / count);
  return squares / count;
}

class TrainedSentences : public TrainableOn<SentencePairs> {
 public:
  TrainedSentences(SentenceEncoder& model, const SentenceConfig& config) : model_(model), config_(config) {}

  std::string metric_name() const override { return "accuracy"; }
  LossSum loss(const SentencePairs& batch) const override {
    return model_.loss(batch, {.temperature = config_.temperature});
  }
  LossSum backward(const SentencePairs& batch, std::uint64_t dropout_seed) override {
    return model_.backward(batch, {.temperature = config_.temperature,
                                   .chunk = config_.chunk,
                                   .label_smoothing = config_.label_smoothing,
                                   .dropout = config_.dropout,
                                   .seed = dropout_seed});
  }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override { walk(model_, scope); }

  SentenceEncoder& model_;
  const SentenceConfig& config_;
};

// The mask tokens of BERT and RoBERTa.
constexpr const char* kMasks[] = {"[MASK]", "<mask>"};

// Files of a tokenizer's folder.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"};

// The common part of trainings on texts: an encoder to begin with, its tokenizer, and texts.
class TextTraining {
 public:
  // `max_length`: 0: all positions.
  TextTraining(const TrainTextFiles& files, std::int64_t max_length, const TrainingOptions& options)
      : files_(files), options_(options) {
    refuse_unless(!files.from.empty(), "train", "{} needs the folder of an encoder to start from (--from)",
                  files.config);
    const TextEncoderConfig encoder = TextEncoder::read_config(files.from);
    tokenizer_.emplace(Tokenizer::load(files.from + "/" + kTokenizerFiles[0], encoder.vocab));
    length_ = max_length == 0 ? encoder.positions : std::min(max_length, encoder.positions);
    reserved_ = tokenizer_->special_tokens();
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::int64_t length() const { return length_; }
  const std::vector<std::string>& reserved() const { return reserved_; }

  // With `identity` in addition to the encoder's, and `settings`; `save` writes the model next to the tokenizer's
  // files.
  template <class Batch, class Examples, class Config>
  TrainingResult run(TrainableOn<Batch>& model, const Examples& train_examples, const Examples& valid_examples,
                     const Config& config, const std::map<std::string, std::string>& identity,
                     const std::map<std::string, std::string>& settings, const std::function<void()>& save) const {
    training::expect_own_files(
        files_.out, {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "modules.json"});
    notice_cut(files_.train, train_examples);
    notice_cut(files_.valid, valid_examples);
    TrainingOptions all = options_;
    all.identity = identity;
    all.identity["from"] = training::checksum_of_weights(files_.from);
    all.settings = training::settings_of(config);
    all.settings.insert(settings.begin(), settings.end());
    all.write_model = [&] {
      for (const char* name : kTokenizerFiles) {
        const std::string path = files_.from + "/" + name;
        if (std::filesystem::exists(path)) write_file(files_.out + "/" + name, read_file(path));
      }
      save();
    };
    return train(model, TrainingData<Batch>{train_examples, valid_examples}, config.training, files_.out, all);
  }

 private:
  template <class Examples>
  void notice_cut(const std::string& path, const Examples& examples) const {
    if (examples.cut() == 0 || options_.observer == nullptr) return;
    options_.observer->notice(
        fmt::format("{}: {} texts have more than {} tokens and are truncated", path, examples.cut(), length_));
  }

  const TrainTextFiles& files_;
  const TrainingOptions& options_;
  std::optional<Tokenizer> tokenizer_;
  std::int64_t length_ = 0;
  std::vector<std::string> reserved_;
};

// A head on examples, which are the same but for their texts. `metric`: a number's variance, or none.
template <class Examples>
TrainingResult train_head(const TrainTextFiles& files, const TextTraining& training, const TextConfig& config,
                          const TextHeadConfig& head, const Examples& train_examples, const Examples& valid_examples,
                          std::optional<double> variance = {}) {
  TextModel model = TextModel::begin(files.from, head, config.training.seed,
                                     with_precision(WeightStorage::full, config.training.precision));
  TrainedText labelled(model, config, "accuracy");
  TrainedNumbers numbers(model, config, variance.value_or(1));
  TrainableOn<LabelledTokens>& trained = variance ? static_cast<TrainableOn<LabelledTokens>&>(numbers) : labelled;
  std::map<std::string, std::string> identity;
  for (const std::string& label : head.labels) identity["labels"] += label + "\n";
  if (head.problem == TextProblem::multi_label) identity["labels"] += "several\n";
  return training.run(trained, train_examples, valid_examples, config, identity, {},
                      [&] { model.save(files.out, files.from, config.dtype); });
}

TrainingResult train_words(const TrainTextFiles& files, const TextTraining& training, const TextConfig& config) {
  const auto read = [&](const std::string& path) {
    return training::read_labelled_words(path, training.reserved(), files.lines);
  };
  const auto train_texts = read(files.train), valid_texts = read(files.valid);
  const std::vector<std::string> labels = training::labels_of(train_texts);
  refuse_unless(labels.size() != 1, "train", "{} has one label; at least two are needed", files.train);
  const training::WordExamples train_examples(train_texts, labels, training.tokenizer(), training.length(),
                                              files.train),
      valid_examples(valid_texts, labels, training.tokenizer(), training.length(), files.valid);
  const TextHeadConfig head{.task = TextTask::token_class, .outputs = std::ssize(labels), .labels = labels};
  return train_head(files, training, config, head, train_examples, valid_examples);
}

TrainingResult train_sequences(const TrainTextFiles& files, const TextTraining& training, const TextConfig& config) {
  const auto read = [&](const std::string& path) {
    return training::read_labelled_texts(path, {.second = config.kind == TrainedKind::pairs, .problem = config.problem},
                                         training.reserved(), files.lines);
  };
  const auto train_texts = read(files.train), valid_texts = read(files.valid);
  const TextHeadConfig head{.outputs = std::ssize(training::labels_of(train_texts, config.problem)),
                            .labels = training::labels_of(train_texts, config.problem),
                            .problem = config.problem};
  refuse_unless(head.outputs != 1 || config.problem != TextProblem::single_label, "train",
                "{} has one label; at least two are needed", files.train);
  refuse_unless(head.outputs > 0, "train", "{} has no label", files.train);
  const TextExamples train_examples(train_texts, head.labels, training.tokenizer(), training.length(), files.train,
                                    config.problem),
      valid_examples(valid_texts, head.labels, training.tokenizer(), training.length(), files.valid, config.problem);
  if (config.problem != TextProblem::regression) {
    return train_head(files, training, config, head, train_examples, valid_examples);
  }
  const double variance = variance_of(train_examples.values());
  refuse_unless(variance > 0, "train", "{} has one number; at least two are needed", files.train);
  return train_head(files, training, config, head, train_examples, valid_examples, variance);
}

TrainingResult train_masked(const TrainTextFiles& files, const TextTraining& training, const TextConfig& config) {
  const Tokenizer& tokenizer = training.tokenizer();
  const auto mask = tokenizer.id_of(kMasks[0]), other = tokenizer.id_of(kMasks[1]);
  refuse_unless(mask || other, "train", "{}/tokenizer.json has neither the token {} nor {}", files.from, kMasks[0],
                kMasks[1]);
  const std::int64_t vocab = TextEncoder::read_config(files.from).vocab;
  MaskedWords words{.mask = mask ? *mask : *other,
                    .vocab = vocab,
                    .is_special = std::vector<std::uint8_t>(static_cast<std::size_t>(vocab))};
  for (const std::string& token : tokenizer.special_tokens()) {
    words.is_special[static_cast<std::size_t>(*tokenizer.id_of(token))] = 1;
  }
  const auto read = [&](const std::string& path) {
    return training::read_labelled_texts(path, {.label = false}, training.reserved(), files.lines);
  };
  const training::PlainExamples train_examples(read(files.train), tokenizer, training.length()),
      valid_examples(read(files.valid), tokenizer, training.length());
  TextModel model = TextModel::begin(files.from, {.task = TextTask::masked_word}, config.training.seed,
                                     with_precision(WeightStorage::full, config.training.precision));
  TrainedWords trained(model, config, words);
  return training.run(trained, train_examples, valid_examples, config, {}, {},
                      [&] { model.save(files.out, files.from, config.dtype); });
}

}  // namespace

TrainingResult train_text(const TrainTextFiles& files, const TrainingOptions& options) {
  const StopScope stop(options.stop);
  const TextConfig config = training::read_text_config(files.config);
  const TextTraining texts(files, config.max_length, options);
  if (config.kind == TrainedKind::masked) return train_masked(files, texts, config);
  return config.kind == TrainedKind::tokens ? train_words(files, texts, config) : train_sequences(files, texts, config);
}

TrainingResult train_sentences(const TrainTextFiles& files, const TrainingOptions& options) {
  const StopScope stop(options.stop);
  const SentenceConfig config = training::read_sentence_config(files.config);
  const TextTraining texts(files, config.max_length, options);
  const auto read = [&](const std::string& path) {
    return training::read_labelled_texts(path, {.second = true, .label = false}, texts.reserved(), files.lines);
  };
  const SentenceExamples train_examples(read(files.train), texts.tokenizer(), texts.length()),
      valid_examples(read(files.valid), texts.tokenizer(), texts.length());
  SentenceEncoder model(TextEncoder::load(files.from, with_precision(WeightStorage::full, config.training.precision)),
                        config.pooling);
  TrainedSentences trained(model, config);
  return texts.run(trained, train_examples, valid_examples, config,
                   {{"pooling", config.pooling == SentencePooling::mean ? "mean" : "first"}},
                   {{"temperature", fmt::format("{}", config.temperature)},
                    {"chunk", fmt::format("{}", config.chunk)},
                    {"lengths in a batch", "any"}},  // they were alike
                   [&] { model.save(files.out, files.from, texts.length(), config.dtype); });
}

}  // namespace qkv
