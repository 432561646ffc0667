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
      K::choice(
          {"", "kind", "-", "What is trained."}, [](C& c) -> auto& { return c.kind; },
          {{"language", TrainedKind::language}}, kRequired),
      K::size(
          {"model", "model_dim", "elements", "Size of the vector of a token."},
          [](C& c) -> auto& { return c.model.model_dim; }, kRequired),
      K::size(
          {"model", "heads", "heads", "Heads of every attention; they divide model_dim into even parts."},
          [](C& c) -> auto& { return c.model.heads; }, kRequired),
      K::size(
          {"model", "kv_heads", "heads",
           "Heads of keys and values, each for as many of the others; they divide heads."},
          [](C& c) -> auto& { return c.model.kv_heads; }, "model.heads"),
      K::size(
          {"model", "ff_dim", "elements", "Size of the vector between the matrices of a feed-forward layer."},
          [](C& c) -> auto& { return c.model.ff_dim; }, kRequired),
      K::integer(
          {"model", "layers", "layers", "Layers of the decoder."}, [](C& c) -> auto& { return c.model.layers; }, 1,
          kMaxLayers, kRequired),
      K::choice(
          {"model", "activation", "-", "Function of the gate of a feed-forward layer."},
          [](C& c) -> auto& { return c.model.activation; }, activation_names()),
      K::integer(
          {"model", "positions", "tokens", "Longest sequence that the model can take."},
          [](C& c) -> auto& { return c.model.positions; }, 2, kMaxLayerSize),
      dropout_key<C>(),
      dtype_key<C>(),
      K::size(
          {"tokenizer", "vocab", "tokens", "Size of the vocabulary learned from the training texts."},
          [](C& c) -> auto& { return c.vocab; }, kRequired),
      K::integer(
          {"training", "batch_tokens", "tokens", "Maximum number of tokens of a batch."},
          [](C& c) -> auto& { return c.training.batch_tokens; }, 1),
      K::integer(
          {"training", "max_length", "tokens", "Tokens of a text that are read together; at most model.positions."},
          [](C& c) -> auto& { return c.max_length; }, 2, kMaxLayerSize, "model.positions"),
      K::choice({"training", "long_texts", "-",
                 "What to do with longer texts; cut: they become several, of max_length tokens but for the last."},
                [](C& c) -> auto& { return c.long_texts; }, {{"refuse", LongTexts::refuse}, {"cut", LongTexts::cut}}),
  };
  add_training_keys(keys);
  return keys;
}

}  // namespace

const std::vector<ConfigKey<LanguageConfig>>& language_keys() {
  static const std::vector<ConfigKey<LanguageConfig>> keys = make_language_keys();
  return keys;
}

std::string language_keys_text() {
  return "Keys of a language model's config (one whose \"kind\" is \"language\"):\n" +
         keys_text({language_keys().begin(), language_keys().end()});
}

std::string language_keys_markdown() { return keys_markdown({language_keys().begin(), language_keys().end()}); }

LanguageConfig read_language_training(const std::string& path) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  LanguageConfig config;
  read_keys(root, language_keys(), config);
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
  expect_end(root["training"], config.training);
  if (config.max_length == 0) config.max_length = model.positions;
  if (config.max_length > model.positions) {
    root["training"]["max_length"].refuse(
        fmt::format("is {}, must be at most model.positions, {}", config.max_length, model.positions));
  }
  return config;
}

}  // namespace qkv::training
