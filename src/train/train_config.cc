// Lists the keys of a training, and reads and checks its config.
#include "train/train_config.h"

#include <fmt/format.h>

#include "io/json_document.h"
#include "models/model_config.h"
#include "models/seq2seq_folder.h"
#include "train/training_keys.h"

namespace qkv::training {
namespace {

// Those that models of either kind have.
void add_common_keys(std::vector<TrainKey>& keys) {
  using C = TrainConfig;
  using K = KeysOf<C>;
  std::vector<TrainKey> own{
      K::number(
          {"model", "dropout", "probability",
           "Share of elements set to 0 during training: in embeddings, attention weights, activations and outputs of "
           "sublayers; of a recurrent model in embeddings, between layers and before the projection."},
          [](C& c) -> auto& { return c.dropout; }, 1),
      K::choice({"model", "dtype", "-", "Type of the weights in the finished model."},
                [](C& c) -> auto& { return c.dtype; },
                {{"f32", Dtype::f32}, {"bf16", Dtype::bf16}, {"f16", Dtype::f16}}),

      K::size(
          {"tokenizer", "vocab", "tokens", "Size of the vocabulary learned from the training pairs."},
          [](C& c) -> auto& { return c.vocab; }, kRequired),
      K::choice({"tokenizer", "vocabularies", "-",
                 "shared: source and target share one, and one table of embeddings; separate: each side has its own."},
                [](C& c) -> auto& { return c.vocabularies; },
                {{"shared", Vocabularies::shared}, {"separate", Vocabularies::separate}}),

      K::integer(
          {"training", "batch_tokens", "tokens", "Maximum number of tokens of a batch, both sides together."},
          [](C& c) -> auto& { return c.training.batch_tokens; }, 1),
      K::integer(
          {"training", "max_length", "tokens",
           "Longest side of a pair to train on, its end token included; at most model.positions."},
          [](C& c) -> auto& { return c.max_length; }, 2, kMaxLayerSize, "model.positions"),
      K::choice({"training", "long_pairs", "-",
                 "What to do with longer pairs; truncate keeps their beginning and the end token."},
                [](C& c) -> auto& { return c.long_pairs; },
                {{"leave_out", LongPairs::leave_out}, {"truncate", LongPairs::truncate}}),
  };
  keys.insert(keys.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  add_training_keys(keys);
}

std::vector<TrainKey> make_keys() {
  using C = TrainConfig;
  using K = KeysOf<C>;
  std::vector<TrainKey> keys{
      K::size(
          {"model", "model_dim", "elements", "Size of the vector of a token."},
          [](C& c) -> auto& { return c.model.model_dim; }, kRequired),
      K::size(
          {"model", "heads", "heads", "Heads of every attention; they divide model_dim."},
          [](C& c) -> auto& { return c.heads; }, kRequired),
      K::size(
          {"model", "ff_dim", "elements", "Size of the vector between the two matrices of a feed-forward layer."},
          [](C& c) -> auto& { return c.ff_dim; }, kRequired),
      K::integer(
          {"model", "encoder_layers", "layers", "Layers that read the source."},
          [](C& c) -> auto& { return c.model.encoder_layers; }, 1, kMaxLayers, kRequired),
      K::integer(
          {"model", "decoder_layers", "layers", "Layers that write the target."},
          [](C& c) -> auto& { return c.model.decoder_layers; }, 1, kMaxLayers, kRequired),
      K::size(
          {"model", "encoder_heads", "heads", "Heads of the encoder only."},
          [](C& c) -> auto& { return c.model.encoder_heads; }, "model.heads"),
      K::size(
          {"model", "decoder_heads", "heads", "Heads of the decoder only."},
          [](C& c) -> auto& { return c.model.decoder_heads; }, "model.heads"),
      K::size(
          {"model", "encoder_ff_dim", "elements", "The ff_dim of the encoder only."},
          [](C& c) -> auto& { return c.model.encoder_ff_dim; }, "model.ff_dim"),
      K::size(
          {"model", "decoder_ff_dim", "elements", "The ff_dim of the decoder only."},
          [](C& c) -> auto& { return c.model.decoder_ff_dim; }, "model.ff_dim"),
      K::choice({"model", "kind", "-",
                 "marian adds sinusoids to embeddings; bart adds a learned table of positions and norms the sum."},
                [](C& c) -> auto& { return c.model.kind; },
                {{"marian", MarianKind::marian}, {"bart", MarianKind::bart}}),
      K::choice({"model", "position_kind", "-",
                 "of_kind: positions as kind has them; rotary: self-attention rotates queries and keys instead."},
                [](C& c) -> auto& { return c.model.position_kind; },
                {{"of_kind", MarianPositions::of_kind}, {"rotary", MarianPositions::rotary}}),
      K::choice({"model", "norm_order", "-",
                 "post: norms follow each sublayer; pre: precede it, with one more at the end of each side."},
                [](C& c) -> auto& { return c.model.norm_order; }, {{"post", NormOrder::post}, {"pre", NormOrder::pre}}),
      K::choice({"model", "normalization", "-", "layer: LayerNorm; rms: RMSNorm without bias."},
                [](C& c) -> auto& { return c.model.normalization; },
                {{"layer", Normalization::layer}, {"rms", Normalization::rms}}),
      K::choice(
          {"model", "activation", "-", "Function between the two matrices of a feed-forward layer."},
          [](C& c) -> auto& { return c.model.activation; }, activation_names()),
      K::integer(
          {"model", "positions", "tokens", "Longest source or target that the model can take."},
          [](C& c) -> auto& { return c.model.positions; }, 2, kMaxLayerSize),
  };
  add_common_keys(keys);
  return keys;
}

// Of a config that has none yet: the default, to show.
Seq2SeqConfig& seq2seq_of(TrainConfig& config) {
  if (!config.seq2seq) config.seq2seq = Seq2SeqConfig{.positions = 512};
  return *config.seq2seq;
}

std::vector<TrainKey> make_seq2seq_keys() {
  using C = TrainConfig;
  using K = KeysOf<C>;
  const auto field = [](auto Seq2SeqConfig::* member) {
    return [member](C& config) -> auto& { return seq2seq_of(config).*member; };
  };
  std::vector<TrainKey> keys{
      K::choice({"model", "attention", "-",
                 "What makes the model a recurrent one. fixed: none, one vector holds the source; additive: before "
                 "each step; dot, "
                 "bilinear: after it."},
                field(&Seq2SeqConfig::kind), seq2seq_kinds()),
      K::choice({"model", "cell", "-", "What a step does (include/qkv/recurrent_cell.h)."}, field(&Seq2SeqConfig::cell),
                recurrent_cells()),
      K::size({"model", "model_dim", "elements", "Size of the vector of a token, and of the states."},
              field(&Seq2SeqConfig::model_dim), kRequired),
      K::integer({"model", "layers", "layers", "Recurrent layers of each side."}, field(&Seq2SeqConfig::layers), 1,
                 kMaxLayers),
      K::integer(
          {"model", "directions", "directions", "Directions that the encoder reads in; 2: each has half of model_dim."},
          field(&Seq2SeqConfig::directions), 1, 2),
      K::integer({"model", "positions", "tokens", "Longest source or target that the model can take."},
                 field(&Seq2SeqConfig::positions), 2, kMaxLayerSize),
  };
  add_common_keys(keys);
  return keys;
}

// What a recurrent translator's config has instead of the keys of a Transformer.
std::vector<KeyWords> own_keys() {
  std::vector<KeyWords> own;
  for (const TrainKey& key : seq2seq_keys()) {
    if (key.name == "dropout") break;  // the first one that both have
    own.push_back(key);
  }
  return own;
}

}  // namespace

const std::vector<TrainKey>& seq2seq_keys() {
  static const std::vector<TrainKey> keys = make_seq2seq_keys();
  return keys;
}

const std::vector<TrainKey>& train_keys() {
  static const std::vector<TrainKey> keys = make_keys();
  return keys;
}

std::string train_keys_text() {
  return "Keys of a translator's config, with type, unit and default (docs/training.md):\n" +
         keys_text({train_keys().begin(), train_keys().end()}) +
         "\nKeys of \"model\" of a recurrent translator (one whose \"model\" has \"attention\"):\n" +
         keys_text(own_keys());
}

std::string seq2seq_keys_markdown() { return keys_markdown(own_keys()); }

std::string train_keys_markdown() { return keys_markdown({train_keys().begin(), train_keys().end()}); }

namespace {

// What needs more than one key, and what follows from other keys.
void complete_marian(const io::JsonValue& root, TrainConfig& config) {
  MarianConfig& model = config.model;
  const auto complete_heads = [&](const char* key, std::int64_t& heads) {
    const bool own = heads > 0;
    if (!own) heads = config.heads;
    const io::JsonValue value = root["model"][own ? key : "heads"];
    if (model.model_dim % heads != 0) {
      value.refuse(fmt::format("is {}, must divide model_dim, {}", heads, model.model_dim));
    }
    if (model.position_kind == MarianPositions::rotary && model.model_dim / heads % 2 != 0) {
      value.refuse(fmt::format("is {}: rotary positions need an even model_dim / heads", heads));
    }
  };
  complete_heads("encoder_heads", model.encoder_heads);
  complete_heads("decoder_heads", model.decoder_heads);
  for (std::int64_t* own : {&model.encoder_ff_dim, &model.decoder_ff_dim}) {
    if (*own == 0) *own = config.ff_dim;
  }
}

void complete_seq2seq(const io::JsonValue& root, const Seq2SeqConfig& model) {
  if (model.model_dim % model.directions != 0) {
    root["model"]["model_dim"].refuse("must be even: the encoder has two directions, each with half of it");
  }
}

void complete(const io::JsonValue& root, TrainConfig& config) {
  if (config.training.steps == 0 && config.training.epochs == 0) {
    root["training"].refuse("must have steps or epochs above 0");
  }
  if (config.max_length == 0) config.max_length = config.positions();
  if (config.max_length > config.positions()) {
    root["training"]["max_length"].refuse(
        fmt::format("is {}, must be at most model.positions, {}", config.max_length, config.positions()));
  }
}

}  // namespace

TrainConfig read_train_config(const std::string& path) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  TrainConfig config;
  if (root["model"].find("attention")) {
    config.seq2seq = Seq2SeqConfig{.positions = 512};
    read_keys(root, seq2seq_keys(), config);
    complete_seq2seq(root, *config.seq2seq);
  } else {
    read_keys(root, train_keys(), config);
    complete_marian(root, config);
  }
  complete(root, config);
  return config;
}

}  // namespace qkv::training
