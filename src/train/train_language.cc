// train_language(): checks files and folder, makes tokenizer and model, and trains.
#include "qkv/train/train_language.h"

#include <fmt/format.h>

#include <filesystem>

#include "models/config_text.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/models/language_model.h"
#include "qkv/stop.h"
#include "qkv/threads.h"
#include "train/checkpoints.h"
#include "train/config/language_config.h"
#include "train/config/run_identity.h"
#include "train/data/documents.h"
#include "train/data/vocabulary.h"
#include "train/trained_with.h"

namespace qkv {
namespace {

using training::Document;
using training::DocumentExamples;
using training::LanguageConfig;
using training::Vocabulary;

constexpr const char* kOwnTokenizer = "tokenizer.json";

// As the tokenizer has them, the end token before each.
std::vector<std::vector<std::int32_t>> tokens_of(const std::vector<Document>& documents, const Tokenizer& tokenizer) {
  std::vector<std::vector<std::int32_t>> all(documents.size());
  parallel_for(std::ssize(all), 0, [&](std::int64_t i, int) {
    const auto index = static_cast<std::size_t>(i);
    all[index] = tokenizer.encode(documents[index].text).ids;
  });
  return all;
}

void refuse_long(const std::vector<Document>& documents, const std::vector<std::vector<std::int32_t>>& tokens,
                 const LanguageConfig& config, const std::string& path) {
  if (config.long_texts == training::LongTexts::cut) return;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (std::ssize(tokens[i]) <= config.max_length) continue;
    throw FormatError(
        fmt::format("{}: the document in line {} has {} tokens, more than max_length, {}; training.long_texts "
                    "\"cut\" splits it",
                    path, documents[i].line, tokens[i].size(), config.max_length));
  }
}

LanguageModel begin_language(const TrainLanguageFiles& files, const LanguageConfig& config) {
  const LanguageModelConfig wanted = llama_config(config.model);
  const WeightStorage storage = with_precision(WeightStorage::full, config.training.precision);
  if (files.from.empty()) return LanguageModel::initial(wanted, config.training.seed, storage);
  if (config_text(LanguageModel::read_config(files.from)) == config_text(wanted)) {
    return LanguageModel::load(files.from, storage);
  }
  throw FormatError(
      fmt::format("{}/config.json: differs from {}: kind, sizes, activation and positions must be the same", files.from,
                  files.config));
}

}  // namespace

TrainingResult train_language(const TrainLanguageFiles& files, const TrainingOptions& options) {
  const StopScope stop(options.stop);
  LanguageConfig config = training::read_language_training(files.config);
  Vocabulary vocabulary(files.out, kOwnTokenizer, training::given_tokenizer(files.tokenizer, files.from, kOwnTokenizer),
                        EndTokenPlace::before);
  const std::vector<std::string> reserved = vocabulary.tokenizer().special_tokens();
  const std::vector<Document> train_documents = training::read_documents(files.train, reserved, files.lines),
                              valid_documents = training::read_documents(files.valid, reserved, files.lines);
  training::expect_own_files(
      files.out, {"model.safetensors", "config.json", "generation_config.json", kOwnTokenizer, "tokenizer_config.json"},
      [&](const std::string& path) {
        return vocabulary.is_given() && std::filesystem::equivalent(path, vocabulary.path());
      });
  std::vector<const std::string*> texts;
  for (const Document& document : train_documents) texts.push_back(&document.text);
  vocabulary.learn(texts, config.vocab, [&](const std::string& text) {
    if (options.observer != nullptr) options.observer->notice(text);
  });
  const Tokenizer& tokenizer = vocabulary.tokenizer();
  const std::int32_t end = vocabulary.need(training::kEnd);
  const LanguageTokens tokens{.begin = end, .end = end, .padding = vocabulary.need(training::kPadding)};
  config.model.vocab = tokenizer.vocab();

  auto train_tokens = tokens_of(train_documents, tokenizer), valid_tokens = tokens_of(valid_documents, tokenizer);
  refuse_long(train_documents, train_tokens, config, files.train);
  for (auto& document : train_tokens) document.push_back(end);
  std::int64_t train_bytes = 0, valid_bytes = 0;
  for (const Document& document : train_documents) train_bytes += std::ssize(document.text);
  for (const Document& document : valid_documents) valid_bytes += std::ssize(document.text);
  const DocumentExamples train_examples(std::move(train_tokens), train_bytes, config.max_length + 1, config.max_length);
  const DocumentExamples valid_examples(std::move(valid_tokens), valid_bytes, config.model.positions,
                                        scoring_stride(config.model.positions));
  LanguageModel model = begin_language(files, config);
  training::TrainedWith<TokenLabels, LanguageModel, LanguageConfig> trained(model, config);
  TrainingOptions all_options = options;
  all_options.identity = {{"model", config_text(model.config())}, {"tokenizer", vocabulary.checksum()}};
  if (!vocabulary.is_given()) all_options.identity[training::kVocabKey] = training::as_identity(config.vocab);
  if (!files.from.empty()) all_options.identity["from"] = training::checksum_of_weights(files.from);
  all_options.settings = training::settings_of(config);
  all_options.write_model = [&] {
    write_file(files.out + "/" + kOwnTokenizer, vocabulary.json());
    training::write_tokenizer_config(files.out, tokenizer, config.model.positions);
    model.save(files.out, tokens, config.dtype);
  };
  return train(trained, TrainingData<TokenLabels>{train_examples, valid_examples}, config.training, files.out,
               all_options);
}

}  // namespace qkv
