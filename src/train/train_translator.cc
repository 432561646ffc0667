// train_translator(): checks files and folder, makes tokenizers and model, and trains.
#include "qkv/train/train_translator.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/refuse.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/stop.h"
#include "qkv/text/tokenizer.h"
#include "train/checkpoints.h"
#include "train/config/run_identity.h"
#include "train/config/train_config.h"
#include "train/data/training_pairs.h"
#include "train/data/vocabulary.h"
#include "train/trained_with.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using training::encode_pairs;
using training::Notice;
using training::notice_shared_pairs;
using training::read_training_pairs;
using training::SideTokens;
using training::TrainConfig;
using training::Vocabularies;
using training::Vocabulary;

// Names of the files in a folder.
constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kTargetTokenizerFile = "target_tokenizer.json";

// The one of both sides; or that of the source side, then that of the target side.
std::vector<Vocabulary> find_vocabularies(const TrainTranslatorFiles& files, Vocabularies sides) {
  if (sides == Vocabularies::shared && !files.target_tokenizer.empty()) {
    refuse("train", "{} is for the target side only; set tokenizer.vocabularies to \"separate\"",
           files.target_tokenizer);
  }
  std::vector<Vocabulary> all;
  all.emplace_back(files.out, kTokenizerFile, training::given_tokenizer(files.tokenizer, files.from, kTokenizerFile));
  if (sides == Vocabularies::separate) {
    all.emplace_back(files.out, kTargetTokenizerFile,
                     training::given_tokenizer(files.target_tokenizer, files.from, kTargetTokenizerFile));
  }
  return all;
}

// The model that training begins with: random weights, or those of the folder.
std::unique_ptr<EncoderDecoder> begin(const TrainTranslatorFiles& files, const TrainConfig& config) {
  const WeightStorage storage = with_precision(WeightStorage::full, config.training.precision);
  if (files.from.empty()) return config.model->initial(config.training.seed, storage);
  if (auto model = config.model->load(files.from, storage)) return model;
  throw FormatError(
      fmt::format("{}/config.json: differs from {}: kind, sizes, activation, positions and special tokens "
                  "must be the same",
                  files.from, files.config));
}

// Model settings that depend on the vocabularies. The source's table has room for the id of padding, too, which other
// programs look up to pad with, though no source holds it.
void set_tokens(const Vocabulary& source, const Vocabulary& target, TrainConfig& config) {
  const std::int32_t padding = target.need(training::kPadding);
  if (padding != target.tokenizer().vocab() - 1) {
    throw FormatError(fmt::format("{}: the token {} must be the last one", target.path(), training::kPadding));
  }
  const std::int64_t target_vocab = target.tokenizer().vocab();
  config.model->set_tokens({.vocab = std::max(source.tokenizer().vocab(), target_vocab),
                            .target_vocab = config.vocabularies == Vocabularies::separate ? target_vocab : 0,
                            .end = target.need(training::kEnd),
                            .padding = padding,
                            .start = padding});
}

}  // namespace

TrainingResult train_translator(const TrainTranslatorFiles& files, const TrainingOptions& options) {
  const StopScope stop(options.stop);
  const Notice notice = [&](const std::string& text) {
    if (options.observer != nullptr) options.observer->notice(text);
  };
  TrainConfig config = training::read_train_config(files.config);
  std::vector<Vocabulary> vocabularies = find_vocabularies(files, config.vocabularies);
  Vocabulary &source = vocabularies.front(), &target = vocabularies.back();
  std::vector<std::string> reserved;
  for (const Vocabulary& own : vocabularies) {
    for (std::string& token : own.tokenizer().special_tokens()) reserved.push_back(std::move(token));
  }
  const io::PairLines train_texts = read_training_pairs(files.train, reserved, files, notice);
  const io::PairLines valid_texts = read_training_pairs(files.valid, reserved, files, notice);
  const auto is_given = [&](const std::string& path) {
    return std::ranges::any_of(
        vocabularies, [&](const Vocabulary& own) { return own.is_given() && fs::equivalent(path, own.path()); });
  };
  training::expect_own_files(files.out,
                             {"model.safetensors", "config.json", "generation_config.json", kTokenizerFile,
                              kTargetTokenizerFile, "tokenizer_config.json"},
                             is_given);
  notice_shared_pairs(train_texts, valid_texts, files.valid, notice);
  for (Vocabulary& own : vocabularies) {
    std::vector<const std::string*> texts;
    for (const TextPair& pair : train_texts.pairs) {
      if (&own == &source) texts.push_back(&pair.source);
      if (&own == &target) texts.push_back(&pair.target);
    }
    own.learn(texts, config.vocab, notice);
  }
  set_tokens(source, target, config);
  const SideTokens source_tokens{source.tokenizer(), source.need(training::kEnd)};
  const SideTokens target_tokens{target.tokenizer(), target.need(training::kEnd)};
  const auto encode = [&](const io::PairLines& texts, const std::string& path) {
    return encode_pairs(texts, source_tokens, target_tokens, config, path, notice);
  };
  const std::vector<TokenPair> train_pairs = encode(train_texts, files.train),
                               valid_pairs = encode(valid_texts, files.valid);
  const std::unique_ptr<EncoderDecoder> model = begin(files, config);
  if (model->transformers_class().empty()) {
    notice(fmt::format("no class of transformers fits this model: its model_type is \"{}\", which only qkv opens",
                       config.model->own_type()));
  }

  training::TrainedWith<PairBatch, EncoderDecoder, TrainConfig> trained(*model, config);
  TrainingOptions all_options = options;
  all_options.identity = config.model->identity();
  for (const Vocabulary& own : vocabularies) all_options.identity[fs::path(own.name()).stem()] = own.checksum();
  if (!source.is_given() || !target.is_given())
    all_options.identity[training::kVocabKey] = training::as_identity(config.vocab);
  if (!files.from.empty()) all_options.identity["from"] = training::checksum_of_weights(files.from);
  all_options.settings = training::settings_of(config);
  all_options.write_model = [&] {
    for (const Vocabulary& own : vocabularies) write_file(files.out + "/" + own.name(), own.json());
    training::write_tokenizer_config(files.out, source.tokenizer(), config.model->positions());
    model->save(files.out, config.dtype);
  };
  return train(trained, {.train = PairExamples(train_pairs), .valid = PairExamples(valid_pairs)}, config.training,
               files.out, all_options);
}

}  // namespace qkv
