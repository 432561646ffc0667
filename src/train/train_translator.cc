#include "qkv/train_translator.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "io/crc32.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/marian.h"
#include "qkv/threads.h"
#include "qkv/tokenizer.h"
#include "qkv/train_tokenizer.h"
#include "train/checkpoints.h"
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

// What would be overwritten belongs to a training that can go on, or nothing is there yet.
void expect_own(const TrainTranslatorFiles& files) {
  if (training::Checkpoints::exist(files.out + "/checkpoints")) return;
  const std::string given = given_tokenizer(files);
  for (const char* name :
       {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    const std::string path = files.out + "/" + name;
    if (!fs::exists(path) || (!given.empty() && fs::exists(given) && fs::equivalent(path, given))) continue;
    throw std::invalid_argument(
        fmt::format("{}: it is there already, and the folder has no checkpoints to go on from; train into another "
                    "folder, or remove it",
                    path));
  }
}

// The text of the tokenizer.json that is given, or that the training in the folder has; else a new one.
std::string make_tokenizer(const TrainTranslatorFiles& files, const std::vector<TextPair>& pairs, std::int64_t vocab) {
  const std::string given = given_tokenizer(files), own = files.out + "/tokenizer.json";
  if (!given.empty()) return read_file(given);
  if (fs::exists(own)) return read_file(own);
  TokenizerTrainer trainer;
  for (const TextPair& pair : pairs) {
    trainer.add(pair.source);
    trainer.add(pair.target);
  }
  return trainer.train(vocab);
}

std::string checksum(std::string_view bytes) { return fmt::format("{:08x}", io::crc32(bytes)); }

// Every member by name: one that is added here must be added there.
std::map<std::string, std::string> identity_of(const MarianConfig& config) {
  const auto& [kind, vocab, target_vocab, positions, model_dim, encoder_layers, decoder_layers, encoder_heads,
               decoder_heads, encoder_ff_dim, decoder_ff_dim, activation, norm_order, normalization, position_kind,
               scale_embedding, end, padding, start] = config;
  const auto number = [](auto value) { return fmt::format("{}", static_cast<std::int64_t>(value)); };
  return {{"kind", number(kind)},
          {"vocab", number(vocab)},
          {"target vocab", number(target_vocab)},
          {"positions", number(positions)},
          {"model_dim", number(model_dim)},
          {"encoder_layers", number(encoder_layers)},
          {"decoder_layers", number(decoder_layers)},
          {"encoder heads", number(encoder_heads)},
          {"decoder heads", number(decoder_heads)},
          {"encoder ff_dim", number(encoder_ff_dim)},
          {"decoder ff_dim", number(decoder_ff_dim)},
          {"activation", number(activation)},
          {"norm order", number(norm_order)},
          {"normalization", number(normalization)},
          {"position kind", number(position_kind)},
          {"scale_embedding", number(scale_embedding)},
          {"end", number(end)},
          {"padding", number(padding)},
          {"start", number(start)}};
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
  expect_own(files);
  const std::string given = given_tokenizer(files);
  const std::string tokenizer_path = given.empty() ? files.out + "/tokenizer.json" : given;
  const std::string tokenizer_json = make_tokenizer(files, train_texts, config.vocab);
  const Tokenizer tokenizer = Tokenizer::parse(tokenizer_json, tokenizer_path);
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
  all_options.identity = identity_of(config.model);
  all_options.identity["tokenizer"] = checksum(tokenizer_json);
  if (!files.from.empty()) all_options.identity["from"] = checksum(read_file(files.from + "/model.safetensors"));
  all_options.settings = {{"dropout", fmt::format("{}", config.dropout)},
                          {"label_smoothing", fmt::format("{}", config.label_smoothing)}};
  all_options.write_model = [&] {
    write_file(files.out + "/tokenizer.json", tokenizer_json);
    write_tokenizer_config(files.out, tokenizer, config.model.positions);
    model.save(files.out, config.dtype);
  };
  return train(trained, {.train = train_pairs, .valid = valid_pairs}, config.training, files.out, all_options);
}

}  // namespace qkv
