// Lists the keys of a training, and reads and checks its config.
#include "train/config/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "io/json/json_document.h"
#include "models/model_config.h"
#include "train/config/run_identity.h"
#include "train/config/training_keys.h"

namespace qkv::training {
namespace {

std::vector<TrainedFamily>& added_families() {
  static std::vector<TrainedFamily> families;
  return families;
}

}  // namespace

void add_trained_family(const TrainedFamily& family) {
  const auto is_it = [&](const TrainedFamily& added) { return added.key == std::string_view(family.key); };
  if (std::ranges::none_of(added_families(), is_it)) added_families().push_back(family);
}

void add_common_keys(std::vector<TrainKey>& keys) {
  using C = TrainConfig;
  using K = KeysOf<C>;
  std::vector<TrainKey> own{
      dropout_key<C>(
          ", activations and outputs of sublayers; of a recurrent model in embeddings, between layers and before "
          "the projection"),
      dtype_key<C>(),

      K::size({"tokenizer", "vocab", "tokens", "Size of the vocabulary learned from the training pairs."}, &C::vocab,
              kRequired),
      K::choice({"tokenizer", "vocabularies", "-",
                 "shared: source and target share one, and one table of embeddings; separate: each side has its own."},
                &C::vocabularies, {{"shared", Vocabularies::shared}, {"separate", Vocabularies::separate}}),

      K::integer({"training", "batch_tokens", "tokens", "Maximum number of tokens of a batch, both sides together."},
                 path(&C::training, &TrainingConfig::batch_tokens), 1),
      K::integer({"training", "max_length", "tokens",
                  "Longest side of a pair to train on, its end token included; at most model.positions."},
                 &C::max_length, 2, kMaxLayerSize, "model.positions"),
      K::choice({"training", "long_pairs", "-",
                 "What to do with longer pairs; truncate keeps their beginning and the end token."},
                &C::long_pairs, {{"leave_out", LongPairs::leave_out}, {"truncate", LongPairs::truncate}}),
  };
  keys.insert(keys.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  add_training_keys(keys);
}

namespace {

TransformerEncoderDecoderConfig& transformer(TrainConfig& config) {
  return model_config<TransformerEncoderDecoder>(config);
}

std::vector<TrainKey> make_keys() {
  using C = TrainConfig;
  using K = KeysOf<C>;
  using M = TransformerEncoderDecoderConfig;
  const auto field = [](auto M::* member) { return model_field<TransformerEncoderDecoder>(member); };
  std::vector<TrainKey> keys{
      K::size({"model", "model_dim", "elements", "Size of the vector of a token."}, field(&M::model_dim), kRequired),
      K::size({"model", "heads", "heads", "Heads of every attention; they divide model_dim."}, &C::heads, kRequired),
      K::size({"model", "ff_dim", "elements", "Size of the vector between the two matrices of a feed-forward layer."},
              &C::ff_dim, kRequired),
      K::integer({"model", "encoder_layers", "layers", "Layers that read the source."}, field(&M::encoder_layers), 1,
                 kMaxLayers, kRequired),
      K::integer({"model", "decoder_layers", "layers", "Layers of the decoder."}, field(&M::decoder_layers), 1,
                 kMaxLayers, kRequired),
      K::size({"model", "encoder_heads", "heads", "Heads of the encoder only."}, field(&M::encoder_heads),
              "model.heads"),
      K::size({"model", "decoder_heads", "heads", "Heads of the decoder only."}, field(&M::decoder_heads),
              "model.heads"),
      K::size({"model", "encoder_ff_dim", "elements", "The ff_dim of the encoder only."}, field(&M::encoder_ff_dim),
              "model.ff_dim"),
      K::size({"model", "decoder_ff_dim", "elements", "The ff_dim of the decoder only."}, field(&M::decoder_ff_dim),
              "model.ff_dim"),
      K::choice({"model", "kind", "-",
                 "marian adds sinusoids to embeddings; bart adds a learned table of positions and norms the sum."},
                field(&M::kind),
                {{"marian", TransformerEncoderDecoderKind::marian}, {"bart", TransformerEncoderDecoderKind::bart}}),
      K::choice({"model", "position_kind", "-",
                 "of_kind: positions as kind has them; rotary: self-attention rotates queries and keys instead."},
                field(&M::position_kind),
                {{"of_kind", TransformerPositions::of_kind}, {"rotary", TransformerPositions::rotary}}),
      K::choice({"model", "norm_order", "-",
                 "post: norms follow each sublayer; pre: precede it, with one more at the end of each side."},
                field(&M::norm_order), {{"post", NormOrder::post}, {"pre", NormOrder::pre}}),
      K::choice({"model", "normalization", "-", "layer: LayerNorm; rms: RMSNorm without bias."},
                field(&M::normalization), {{"layer", Normalization::layer}, {"rms", Normalization::rms}}),
      K::choice({"model", "activation", "-", "Function between the two matrices of a feed-forward layer."},
                field(&M::activation), activation_names()),
      K::integer({"model", "positions", "tokens", "Longest source or translation that the model can take."},
                 field(&M::positions), 2, kMaxLayerSize),
  };
  add_common_keys(keys);
  return keys;
}

std::vector<KeyWords> own_keys(const TrainedFamily& family) {
  std::vector<KeyWords> own;
  for (const TrainKey& key : family.keys()) {
    if (key.name == "dropout") break;  // the first one that all have
    own.push_back(key);
  }
  return own;
}

}  // namespace

const std::vector<TrainKey>& train_keys() {
  static const std::vector<TrainKey> keys = make_keys();
  return keys;
}

std::string train_keys_text() {
  std::string text = "Keys of a translator's config, with type, unit and default (docs/training.md):\n" +
                     keys_text({train_keys().begin(), train_keys().end()});
  for (const TrainedFamily& family : added_families()) {
    text += fmt::format("\nKeys of \"model\" of a {} (one whose \"model\" has \"{}\"):\n{}", family.name, family.key,
                        keys_text(own_keys(family)));
  }
  return text;
}

std::string own_keys_markdown(const TrainedFamily& family) { return keys_markdown(own_keys(family)); }

std::string train_keys_markdown() { return keys_markdown({train_keys().begin(), train_keys().end()}); }

namespace {

// Rules on several keys, and values that follow from other keys.
void complete_transformer(const io::JsonValue& root, TrainConfig& config) {
  TransformerEncoderDecoderConfig& model = transformer(config);
  const auto complete_heads = [&](const char* key, std::int64_t& heads) {
    const bool own = heads > 0;
    if (!own) heads = config.heads;
    const io::JsonValue value = root["model"][own ? key : "heads"];
    if (model.model_dim % heads != 0) {
      value.refuse(fmt::format("is {}, must divide model_dim, {}", heads, model.model_dim));
    }
    if (model.position_kind == TransformerPositions::rotary && model.model_dim / heads % 2 != 0) {
      value.refuse(fmt::format("is {}: rotary positions need an even model_dim / heads", heads));
    }
  };
  complete_heads("encoder_heads", model.encoder_heads);
  complete_heads("decoder_heads", model.decoder_heads);
  for (std::int64_t* own : {&model.encoder_ff_dim, &model.decoder_ff_dim}) {
    if (*own == 0) *own = config.ff_dim;
  }
}

void complete(const io::JsonValue& root, TrainConfig& config) {
  expect_end(root["training"], config.training);
  if (config.max_length == 0) config.max_length = config.model->positions();
  if (config.max_length > config.model->positions()) {
    root["training"]["max_length"].refuse(
        fmt::format("is {}, must be at most model.positions, {}", config.max_length, config.model->positions()));
  }
}

}  // namespace

TrainConfig read_train_config(const std::string& path) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  TrainConfig config;
  const auto& families = added_families();
  const auto family = std::ranges::find_if(
      families, [&](const TrainedFamily& added) { return root["model"].find(added.key).has_value(); });
  if (family != families.end()) {
    read_keys(root, family->keys(), config);
    family->complete(root, config);
  } else {
    read_keys(root, train_keys(), config);
    complete_transformer(root, config);
  }
  complete(root, config);
  return config;
}

template <>
const char* TrainedModelOf<TransformerEncoderDecoder>::own_type() const {
  return "qkv";
}

// One that is added here must be added there.
template <>
std::map<std::string, std::string> TrainedModelOf<TransformerEncoderDecoder>::identity() const {
  const auto& [kind, vocab, target_vocab, positions, model_dim, encoder_layers, decoder_layers, encoder_heads,
               decoder_heads, encoder_ff_dim, decoder_ff_dim, activation, norm_order, normalization, position_kind,
               scale_embedding, end, padding, start] = config;
  return {{"kind", as_identity(kind)},
          {"vocab", as_identity(vocab)},
          {"target vocab", as_identity(target_vocab)},
          {"positions", as_identity(positions)},
          {"model_dim", as_identity(model_dim)},
          {"encoder_layers", as_identity(encoder_layers)},
          {"decoder_layers", as_identity(decoder_layers)},
          {"encoder heads", as_identity(encoder_heads)},
          {"decoder heads", as_identity(decoder_heads)},
          {"encoder ff_dim", as_identity(encoder_ff_dim)},
          {"decoder ff_dim", as_identity(decoder_ff_dim)},
          {"activation", as_identity(activation)},
          {"norm order", as_identity(norm_order)},
          {"normalization", as_identity(normalization)},
          {"position kind", as_identity(position_kind)},
          {"scale_embedding", as_identity(scale_embedding)},
          {"end", as_identity(end)},
          {"padding", as_identity(padding)},
          {"start", as_identity(start)}};
}

}  // namespace qkv::training
