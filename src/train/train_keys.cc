// Lists every key of a training's config, with its type, bounds, default and meaning.
#include "train/train_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "layers/basic/check_size.h"
#include "models/activation_names.h"

namespace qkv::training {
namespace {

constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;
constexpr std::int64_t kMaxEpochs = 1'000'000;
constexpr const char* kRequired = "";

struct Words {
  const char *section, *name, *unit, *meaning;
};

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// The default is `otherwise`, or else what a config has before it is read.
TrainKey key(const Words& words, std::string type, const char* otherwise,
             std::function<void(const io::JsonValue&, TrainConfig&)> read,
             std::function<std::string(const TrainConfig&)> show) {
  return {.section = words.section,
          .name = words.name,
          .type = std::move(type),
          .unit = words.unit,
          .otherwise = otherwise != nullptr ? otherwise : show(TrainConfig()),
          .meaning = words.meaning,
          .read = std::move(read),
          .show = show};
}

// What `field` finds in a config: where a key's value goes, and what it is then.
template <class Field>
using Value = std::remove_reference_t<std::invoke_result_t<Field, TrainConfig&>>;

template <class Field>
Value<Field> value_in(Field field, TrainConfig config) {
  return field(config);
}

template <class Field>
TrainKey integer(const Words& words, Field field, std::int64_t least, std::int64_t most = kMaxCount,
                 const char* otherwise = nullptr) {
  return key(
      words, fmt::format("integer from {}", least), otherwise,
      [=](const io::JsonValue& value, TrainConfig& config) {
        field(config) = static_cast<Value<Field>>(value.integer(least, most));
      },
      [=](const TrainConfig& config) { return fmt::format("{}", value_in(field, config)); });
}

template <class Field>
TrainKey size(const Words& words, Field field, const char* otherwise = nullptr) {
  return integer(words, field, 1, kMaxLayerSize, otherwise);
}

// In [0, below).
template <class Field>
TrainKey number(const Words& words, Field field, double below = kUnbounded, const char* otherwise = nullptr) {
  return key(
      words, below < kUnbounded ? fmt::format("number from 0 to below {}", below) : "number from 0", otherwise,
      [=](const io::JsonValue& value, TrainConfig& config) {
        const double number = value.number();
        if (!(number >= 0)) value.refuse("must be 0 or more");
        if (!(number < below)) value.refuse(fmt::format("must be below {}", below));
        field(config) = number;
      },
      [=](const TrainConfig& config) { return fmt::format("{}", value_in(field, config)); });
}

template <class Field>
TrainKey choice(const Words& words, Field field, const std::vector<std::pair<std::string, Value<Field>>>& choices) {
  std::string names, type;
  for (const auto& [name, value] : choices) {
    names += (names.empty() ? "" : ", ") + name;
    type += (type.empty() ? "\"" : " or \"") + name + '"';
  }
  return key(
      words, type, nullptr,
      [=](const io::JsonValue& value, TrainConfig& config) {
        const auto chosen =
            std::find_if(choices.begin(), choices.end(), [&](const auto& one) { return one.first == value.string(); });
        if (chosen == choices.end()) value.refuse("must be one of " + names);
        field(config) = chosen->second;
      },
      [=](const TrainConfig& config) {
        const Value<Field> value = value_in(field, config);
        return '"' +
               std::find_if(choices.begin(), choices.end(), [&](const auto& one) { return one.second == value; })
                   ->first +
               '"';
      });
}

std::vector<TrainKey> make_keys() {
  using C = TrainConfig;
  return {
      size(
          {"model", "model_dim", "elements", "Size of the vector of a token."},
          [](C& c) -> auto& { return c.model.model_dim; }, kRequired),
      size(
          {"model", "heads", "heads", "Heads of every attention; they divide model_dim."},
          [](C& c) -> auto& { return c.heads; }, kRequired),
      size(
          {"model", "ff_dim", "elements", "Size of the vector between the two matrices of a feed-forward layer."},
          [](C& c) -> auto& { return c.ff_dim; }, kRequired),
      integer(
          {"model", "encoder_layers", "layers", "Layers that read the source."},
          [](C& c) -> auto& { return c.model.encoder_layers; }, 1, kMaxLayers, kRequired),
      integer(
          {"model", "decoder_layers", "layers", "Layers that write the target."},
          [](C& c) -> auto& { return c.model.decoder_layers; }, 1, kMaxLayers, kRequired),
      size(
          {"model", "encoder_heads", "heads", "Heads of the encoder only."},
          [](C& c) -> auto& { return c.model.encoder_heads; }, "model.heads"),
      size(
          {"model", "decoder_heads", "heads", "Heads of the decoder only."},
          [](C& c) -> auto& { return c.model.decoder_heads; }, "model.heads"),
      size(
          {"model", "encoder_ff_dim", "elements", "The ff_dim of the encoder only."},
          [](C& c) -> auto& { return c.model.encoder_ff_dim; }, "model.ff_dim"),
      size(
          {"model", "decoder_ff_dim", "elements", "The ff_dim of the decoder only."},
          [](C& c) -> auto& { return c.model.decoder_ff_dim; }, "model.ff_dim"),
      choice({"model", "kind", "-",
              "marian adds sinusoids to embeddings; bart adds a learned table of positions and norms the sum."},
             [](C& c) -> auto& { return c.model.kind; }, {{"marian", MarianKind::marian}, {"bart", MarianKind::bart}}),
      choice({"model", "position_kind", "-",
              "of_kind: positions as kind has them; rotary: self-attention rotates queries and keys instead."},
             [](C& c) -> auto& { return c.model.position_kind; },
             {{"of_kind", MarianPositions::of_kind}, {"rotary", MarianPositions::rotary}}),
      choice({"model", "norm_order", "-",
              "post: norms follow each sublayer; pre: precede it, with one more at the end of each side."},
             [](C& c) -> auto& { return c.model.norm_order; }, {{"post", NormOrder::post}, {"pre", NormOrder::pre}}),
      choice({"model", "normalization", "-", "layer: LayerNorm; rms: RMSNorm without bias."},
             [](C& c) -> auto& { return c.model.normalization; },
             {{"layer", Normalization::layer}, {"rms", Normalization::rms}}),
      choice(
          {"model", "activation", "-", "Function between the two matrices of a feed-forward layer."},
          [](C& c) -> auto& { return c.model.activation; }, activation_names()),
      integer(
          {"model", "positions", "tokens", "Longest source or target that the model can take."},
          [](C& c) -> auto& { return c.model.positions; }, 2, kMaxLayerSize),
      number(
          {"model", "dropout", "probability",
           "Share of elements set to 0 during training: in embeddings, attention weights, activations and outputs of "
           "sublayers."},
          [](C& c) -> auto& { return c.dropout; }, 1),
      choice({"model", "dtype", "-", "Type of the weights in the finished model."},
             [](C& c) -> auto& { return c.dtype; }, {{"f32", Dtype::f32}, {"bf16", Dtype::bf16}, {"f16", Dtype::f16}}),

      size(
          {"tokenizer", "vocab", "tokens", "Size of the vocabulary learned from the training pairs."},
          [](C& c) -> auto& { return c.vocab; }, kRequired),
      choice({"tokenizer", "vocabularies", "-",
              "shared: source and target share one, and one table of embeddings; separate: each side has its own."},
             [](C& c) -> auto& { return c.vocabularies; },
             {{"shared", Vocabularies::shared}, {"separate", Vocabularies::separate}}),

      integer(
          {"training", "steps", "updates", "Maximum number of updates of the weights; 0: limited by epochs alone."},
          [](C& c) -> auto& { return c.training.steps; }, 0),
      integer(
          {"training", "epochs", "passes",
           "Maximum number of passes over the training pairs; 0: limited by steps alone."},
          [](C& c) -> auto& { return c.training.epochs; }, 0, kMaxEpochs),
      number(
          {"training", "rate", "per update", "The highest learning rate; above 0."},
          [](C& c) -> auto& { return c.training.schedule.rate; }, kUnbounded, kRequired),
      choice({"training", "schedule", "-", "How the learning rate falls after the warm-up."},
             [](C& c) -> auto& { return c.training.schedule.decay; },
             {{"inverse_sqrt", Decay::inverse_sqrt}, {"cosine", Decay::cosine}}),
      integer(
          {"training", "warmup", "updates", "Updates in which the learning rate rises from 0 to the highest."},
          [](C& c) -> auto& { return c.training.schedule.warmup; }, 0),
      integer(
          {"training", "batch_tokens", "tokens", "Maximum number of tokens of a batch, both sides together."},
          [](C& c) -> auto& { return c.training.batch_tokens; }, 1),
      integer(
          {"training", "accumulate", "batches", "Batches whose gradients make one update."},
          [](C& c) -> auto& { return c.training.accumulate; }, 1),
      number({"training", "clip", "norm", "Maximum norm of all gradients together, per target token; 0: no limit."},
             [](C& c) -> auto& { return c.training.clip; }),
      number(
          {"training", "label_smoothing", "probability", "Share of each target that is spread over all tokens."},
          [](C& c) -> auto& { return c.label_smoothing; }, 1),
      choice({"training", "optimizer", "-",
              "AdamW shrinks weights by rate * weight_decay; Adam adds weight_decay * weight to their gradients."},
             [](C& c) -> auto& { return c.training.adam.decay; },
             {{"adam", WeightDecay::in_gradient}, {"adamw", WeightDecay::decoupled}}),
      number(
          {"training", "beta1", "-", "Decay rate of Adam's running mean of gradients."},
          [](C& c) -> auto& { return c.training.adam.beta1; }, 1),
      number(
          {"training", "beta2", "-", "Decay rate of Adam's running mean of squared gradients."},
          [](C& c) -> auto& { return c.training.adam.beta2; }, 1),
      number({"training", "epsilon", "-", "Added to the square root of the latter; above 0."},
             [](C& c) -> auto& { return c.training.adam.epsilon; }),
      number({"training", "weight_decay", "-", "Strength of the pull of weights towards 0; see optimizer."},
             [](C& c) -> auto& { return c.training.adam.weight_decay; }),
      integer(
          {"training", "max_length", "tokens",
           "Longest side of a pair to train on, its end token included; at most model.positions."},
          [](C& c) -> auto& { return c.max_length; }, 2, kMaxLayerSize, "model.positions"),
      choice({"training", "long_pairs", "-",
              "What to do with longer pairs; truncate keeps their beginning and the end token."},
             [](C& c) -> auto& { return c.long_pairs; },
             {{"leave_out", LongPairs::leave_out}, {"truncate", LongPairs::truncate}}),
      integer(
          {"training", "seed", "-", "Seed of every random draw: weights, order of the pairs, dropout."},
          [](C& c) -> auto& { return c.training.seed; }, 0),
      integer(
          {"training", "log_every", "updates", "Updates between two lines of log.jsonl."},
          [](C& c) -> auto& { return c.training.log_every; }, 1),
      integer(
          {"training", "validate_every", "updates",
           "Updates between two validations, each with a checkpoint; the end is always validated."},
          [](C& c) -> auto& { return c.training.validate_every; }, 1),
      number({"training", "checkpoint_minutes", "minutes",
              "Also write a checkpoint after this time without one; 0: only at validations."},
             [](C& c) -> auto& { return c.training.checkpoint_minutes; }),
      integer(
          {"training", "patience", "validations", "Stop after this many in a row without a better loss; 0: never."},
          [](C& c) -> auto& { return c.training.patience; }, 0),
      integer(
          {"training", "average", "checkpoints",
           "The mean of this many, up to the best one, is the result if it validates better than the best."},
          [](C& c) -> auto& { return c.training.average; }, 1),
  };
}

}  // namespace

std::span<const TrainKey> train_keys() {
  static const std::vector<TrainKey> keys = make_keys();
  return keys;
}

}  // namespace qkv::training
