// Lists the keys of a language model's training, and reads and checks its config.
#include "train/config/language_config.h"

#include <fmt/format.h>

#include "models/model_config.h"
#include "train/config/training_keys.h"

namespace qkv::training {
namespace {

std::vector<ConfigKey<LanguageConfig>> make_language_keys() {
  using C = LanguageConfig;
  using K = KeysOf<C>;
  std::vector<ConfigKey<C>> keys{
      K::choice({"", "kind", "-", "Kind of model."}, &C::kind, {{"language", TrainedKind::language}}, kRequired),
      K::size({"model", "model_dim", "elements", "Size of the vector of a token."},
              path(&C::model, &LlamaSizes::model_dim), kRequired),
      K::size({"model", "heads", "heads", "Heads of every attention; they divide model_dim into even parts."},
              path(&C::model, &LlamaSizes::heads), kRequired),
      K::size({"model", "kv_heads", "heads",
               "Heads of keys and values, each shared by equally many query heads; they divide heads."},
              path(&C::model, &LlamaSizes::kv_heads), "model.heads"),
      K::size({"model", "ff_dim", "elements", "Size of the vector between the matrices of a feed-forward layer."},
              path(&C::model, &LlamaSizes::ff_dim), kRequired),
      K::integer({"model", "layers", "layers", "Layers of the decoder."}, path(&C::model, &LlamaSizes::layers), 1,
                 kMaxLayers, kRequired),
      K::choice({"model", "activation", "-", "Function of the gate of a feed-forward layer."},
                path(&C::model, &LlamaSizes::activation), activation_names()),
      K::integer({"model", "positions", "tokens", "Longest sequence that the model can take."},
                 path(&C::model, &LlamaSizes::positions), 2, kMaxLayerSize),
      dropout_key<C>(),
      dtype_key<C>(),
      K::size({"tokenizer", "vocab", "tokens", "Size of the vocabulary learned from the training texts."}, &C::vocab,
              kRequired),
      K::integer({"training", "batch_tokens", "tokens", "Maximum number of tokens of a batch."},
                 path(&C::training, &TrainingConfig::batch_tokens), 1),
      K::integer({"training", "max_length", "tokens", "Maximum number of tokens of a text; at most model.positions."},
                 &C::max_length, 2, kMaxLayerSize, "model.positions"),
      K::choice({"training", "long_texts", "-",
                 "What to do with longer texts; cut splits them into texts of max_length tokens."},
                &C::long_texts, {{"refuse", LongTexts::refuse}, {"cut", LongTexts::cut}}),
  };
  add_training_keys(keys);
  return keys;
}

}  // namespace

const KeyTable<LanguageConfig>& language_keys() {
  static const KeyTable<LanguageConfig> table{
      "Keys of a language model's config (one whose \"kind\" is \"language\"):\n", make_language_keys()};
  return table;
}

LanguageConfig read_language_training(const std::string& path) {
  return read_config(path, language_keys(), [](const io::JsonValue& root, LanguageConfig& config) {
    LlamaSizes& model = config.model;
    const auto refuse_heads = [&](const char* key, std::int64_t heads, const std::string& rule) {
      root["model"][key].refuse(fmt::format("is {}, {}", heads, rule));
    };
    if (model.model_dim % model.heads != 0 || model.model_dim / model.heads % 2 != 0) {
      refuse_heads("heads", model.heads, fmt::format("must divide model_dim, {}, into even parts", model.model_dim));
    }
    if (model.kv_heads == 0) model.kv_heads = model.heads;
    if (model.heads % model.kv_heads != 0) {
      refuse_heads("kv_heads", model.kv_heads, fmt::format("must divide heads, {}", model.heads));
    }
    if (config.max_length == 0) config.max_length = model.positions;
    if (config.max_length > model.positions) {
      root["training"]["max_length"].refuse(
          fmt::format("is {}, must be at most model.positions, {}", config.max_length, model.positions));
    }
  });
}

}  // namespace qkv::training
