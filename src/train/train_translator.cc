#include "qkv/train_translator.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/crc32.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/marian.h"
#include "qkv/threads.h"
#include "qkv/tokenizer.h"
#include "qkv/train_tokenizer.h"
#include "train/train_config.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using training::LongPairs;
using training::TrainConfig;

constexpr const char* kEnd = "</s>";
constexpr const char* kPadding = "<pad>";
constexpr const char* kUnknown = "<unk>";

// The model with the options of its training.
class TrainedMarian : public Trainable {
 public:
  TrainedMarian(Marian& model, const TrainConfig& config) : model_(model), config_(config) {}

  void visit(const ParameterVisitor& visitor) const override { model_.visit(visitor); }
  void update(const ParameterUpdater& updater) override { model_.update(updater); }
  LossSum loss(const PairBatch& batch) const override { return model_.loss(batch); }
  LossSum backward(const PairBatch& batch, std::uint64_t dropout_seed) override {
    return model_.backward(
        batch, {.dropout = config_.dropout, .label_smoothing = config_.label_smoothing, .seed = dropout_seed});
  }

 private:
  Marian& model_;
  const TrainConfig& config_;
};

std::string given_tokenizer(const TrainTranslatorFiles& files) {
  return files.tokenizer.empty() && !files.from.empty() ? files.from + "/tokenizer.json" : files.tokenizer;
}

// What the folder has already wins over training one: a training that was interrupted goes on with its tokenizer.
Tokenizer make_tokenizer(const TrainTranslatorFiles& files, const std::vector<TextPair>& pairs, std::int64_t vocab) {
  const std::string path = files.out + "/tokenizer.json";
  const std::string given = given_tokenizer(files);
  if (!given.empty()) {
    Tokenizer tokenizer = Tokenizer::load(given);
    if (!fs::exists(path) || !fs::equivalent(path, given)) write_file(path, read_file(given));
    return tokenizer;
  }
  if (!fs::exists(path)) {
    TokenizerTrainer trainer;
    for (const TextPair& pair : pairs) {
      trainer.add(pair.source);
      trainer.add(pair.target);
    }
    write_file(path, trainer.train(vocab));
  }
  return Tokenizer::load(path);
}

Marian begin(const TrainTranslatorFiles& files, const TrainConfig& config) {
  if (files.from.empty()) return Marian::initial(config.model, config.training.seed);
  Marian model = Marian::load(files.from);
  if (model.config() != config.model) {
    throw FormatError(
        fmt::format("{}/config.json: not the model of {}: sizes, activation, positions and special tokens "
                    "must be the same",
                    files.from, files.config));
  }
  return model;
}

std::int32_t need_token(const Tokenizer& tokenizer, const std::string& token, const std::string& path) {
  const auto id = tokenizer.id_of(token);
  if (!id) throw FormatError(fmt::format("{}: it has no token \"{}\"", path, token));
  return *id;
}

void write_tokenizer_config(const std::string& folder, const Tokenizer& tokenizer, std::int64_t positions) {
  nlohmann::ordered_json json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"model_max_length", positions},
                              {"eos_token", kEnd},
                              {"pad_token", kPadding},
                              {"clean_up_tokenization_spaces", false}};
  if (tokenizer.id_of(kUnknown)) json["unk_token"] = kUnknown;
  write_file(folder + "/tokenizer_config.json", json.dump(2) + "\n");
}

// Both sides end with the end token.
std::vector<std::int32_t> encode(const Tokenizer& tokenizer, const std::string& text, std::int32_t end) {
  std::vector<std::int32_t> ids = tokenizer.encode(text).ids;
  if (ids.empty() || ids.back() != end) ids.push_back(end);
  return ids;
}

// Leaves out pairs with a side of more than max_length tokens, or cuts such sides off; returns how many pairs it were.
std::size_t shorten(std::vector<TokenPair>& pairs, const TrainConfig& config) {
  const auto too_long = [&](const TokenPair& pair) {
    return std::max(std::ssize(pair.source), std::ssize(pair.target)) > config.max_length;
  };
  if (config.long_pairs == LongPairs::leave_out) return std::erase_if(pairs, too_long);
  std::size_t count = 0;
  for (TokenPair& pair : pairs) {
    if (!too_long(pair)) continue;
    ++count;
    for (std::vector<std::int32_t>* side : {&pair.source, &pair.target}) {
      if (std::ssize(*side) <= config.max_length) continue;
      side->resize(static_cast<std::size_t>(config.max_length));
      side->back() = config.model.end;
    }
  }
  return count;
}

std::vector<TokenPair> encode(const Tokenizer& tokenizer, const std::vector<TextPair>& texts, const TrainConfig& config,
                              const std::string& path, const TrainingOptions& options) {
  std::vector<TokenPair> all(texts.size());
  parallel_for(std::ssize(texts), 0, [&](std::int64_t index, int) {
    const auto i = static_cast<std::size_t>(index);
    const std::int32_t end = config.model.end;
    all[i] = {encode(tokenizer, texts[i].source, end), encode(tokenizer, texts[i].target, end)};
  });
  const std::size_t too_long = shorten(all, config);
  if (too_long > 0 && options.observer != nullptr) {
    options.observer->notice(fmt::format("{}: {} of {} pairs have more than {} tokens on a side and are {}", path,
                                         too_long, texts.size(), config.max_length,
                                         config.long_pairs == LongPairs::leave_out ? "left out" : "truncated"));
  }
  return all;
}

}  // namespace

TrainingResult train_translator(const TrainTranslatorFiles& files, const TrainingOptions& options) {
  TrainConfig config = training::read_train_config(files.config);
  const std::vector<TextPair> train_texts = read_pairs(files.train), valid_texts = read_pairs(files.valid);
  std::error_code error;
  fs::create_directories(files.out, error);
  if (error) throw IoError(fmt::format("{}: cannot create: {}", files.out, error.message()));

  const Tokenizer tokenizer = make_tokenizer(files, train_texts, config.vocab);
  const std::string given = given_tokenizer(files);
  const std::string tokenizer_path = given.empty() ? files.out + "/tokenizer.json" : given;
  config.model.vocab = tokenizer.vocab();
  config.model.end = need_token(tokenizer, kEnd, tokenizer_path);
  config.model.padding = config.model.start = need_token(tokenizer, kPadding, tokenizer_path);
  if (config.model.padding != config.model.vocab - 1) {
    throw FormatError(fmt::format("{}: the token {} must be the last one", tokenizer_path, kPadding));
  }
  const std::vector<TokenPair> train_pairs = encode(tokenizer, train_texts, config, files.train, options);
  const std::vector<TokenPair> valid_pairs = encode(tokenizer, valid_texts, config, files.valid, options);

  Marian model = begin(files, config);
  TrainedMarian trained(model, config);
  TrainingOptions all_options = options;
  all_options.identity = fmt::format("{:08x}", io::crc32(read_file(files.config)));
  if (!files.from.empty()) {
    all_options.identity += fmt::format(" {:08x}", io::crc32(read_file(files.from + "/model.safetensors")));
  }
  const TrainingResult result =
      train(trained, {.train = train_pairs, .valid = valid_pairs}, config.training, files.out, all_options);
  write_tokenizer_config(files.out, tokenizer, config.model.positions);
  model.save(files.out, config.dtype);
  return result;
}

}  // namespace qkv
