#include "train/train_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "layers/check_size.h"

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

// What `place` finds in a config: where a key's value goes, and what it is then.
template <class Place>
using Value = std::remove_reference_t<std::invoke_result_t<Place, TrainConfig&>>;

template <class Place>
Value<Place> value_in(Place place, TrainConfig config) {
  return place(config);
}

template <class Place>
TrainKey integer(const Words& words, Place place, std::int64_t least, std::int64_t most = kMaxCount,
                 const char* otherwise = nullptr) {
  return key(
      words, fmt::format("integer from {}", least), otherwise,
      [=](const io::JsonValue& value, TrainConfig& config) {
        place(config) = static_cast<Value<Place>>(value.integer(least, most));
      },
      [=](const TrainConfig& config) { return fmt::format("{}", value_in(place, config)); });
}

template <class Place>
TrainKey size(const Words& words, Place place, const char* otherwise = nullptr) {
  return integer(words, place, 1, kMaxLayerSize, otherwise);
}

// In [0, below).
template <class Place>
TrainKey number(const Words& words, Place place, double below = kUnbounded, const char* otherwise = nullptr) {
  return key(
      words, below < kUnbounded ? fmt::format("number from 0 to below {}", below) : "number from 0", otherwise,
      [=](const io::JsonValue& value, TrainConfig& config) {
        const double number = value.number();
        if (!(number >= 0)) value.refuse("must be 0 or more");
        if (!(number < below)) value.refuse(fmt::format("must be below {}", below));
        place(config) = number;
      },
      [=](const TrainConfig& config) { return fmt::format("{}", value_in(place, config)); });
}

template <class Place>
TrainKey choice(const Words& words, Place place, const std::vector<std::pair<std::string, Value<Place>>>& choices) {
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
        place(config) = chosen->second;
      },
      [=](const TrainConfig& config) {
        const Value<Place> value = value_in(place, config);
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
          {"model", "encoder_heads", "heads", "Heads of the encoder alone."},
          [](C& c) -> auto& { return c.model.encoder_heads; }, "model.heads"),
      size(
          {"model", "decoder_heads", "heads", "Heads of the decoder alone."},
          [](C& c) -> auto& { return c.model.decoder_heads; }, "model.heads"),
      size(
          {"model", "encoder_ff_dim", "elements", "The ff_dim of the encoder alone."},
          [](C& c) -> auto& { return c.model.encoder_ff_dim; }, "model.ff_dim"),
      size(
          {"model", "decoder_ff_dim", "elements", "The ff_dim of the decoder alone."},
          [](C& c) -> auto& { return c.model.decoder_ff_dim; }, "model.ff_dim"),
      choice({"model", "kind", "-",
              "marian adds sinusoids to embeddings; bart adds a learned table of positions and norms the sum."},
             [](C& c) -> auto& { return c.model.kind; }, {{"marian", MarianKind::marian}, {"bart", MarianKind::bart}}),
      choice({"model", "position_kind", "-",
              "of_kind: positions as kind has them; rotary: self-attention turns queries and keys instead."},
             [](C& c) -> auto& { return c.model.position_kind; },
             {{"of_kind", MarianPositions::of_kind}, {"rotary", MarianPositions::rotary}}),
      choice({"model", "norm_order", "-",
              "post: norms come after each part of a layer; pre: before it, and once more at the end of each side."},
             [](C& c) -> auto& { return c.model.norm_order; }, {{"post", NormOrder::post}, {"pre", NormOrder::pre}}),
      choice({"model", "normalization", "-", "layer: LayerNorm; rms: RMSNorm without bias."},
             [](C& c) -> auto& { return c.model.normalization; },
             {{"layer", Normalization::layer}, {"rms", Normalization::rms}}),
      choice({"model", "activation", "-", "Function between the two matrices of a feed-forward layer."},
             [](C& c) -> auto& { return c.model.activation; },
             {{"relu", Activation::relu}, {"gelu", Activation::gelu}, {"silu", Activation::silu}}),
      integer(
          {"model", "positions", "tokens", "Longest source or target that the model can take."},
          [](C& c) -> auto& { return c.model.positions; }, 2, kMaxLayerSize),
      number(
          {"model", "dropout", "probability",
           "Share of the elements that are made 0 while training: in embeddings, weights of attention, activations "
           "and what each part of a layer gives."},
          [](C& c) -> auto& { return c.dropout; }, 1),
      choice({"model", "dtype", "-", "Type of the weights in the finished model."},
             [](C& c) -> auto& { return c.dtype; }, {{"f32", Dtype::f32}, {"bf16", Dtype::bf16}, {"f16", Dtype::f16}}),

      size(
          {"tokenizer", "vocab", "tokens", "Size of the vocabulary that is learned from the pairs to train on."},
          [](C& c) -> auto& { return c.vocab; }, kRequired),
      choice({"tokenizer", "vocabularies", "-",
              "shared: source and target have one, and one table of embeddings; separate: each side has its own."},
             [](C& c) -> auto& { return c.vocabularies; },
             {{"shared", Vocabularies::shared}, {"separate", Vocabularies::separate}}),

      integer(
          {"training", "steps", "updates", "Updates of the weights, at most; 0: as many as epochs has."},
          [](C& c) -> auto& { return c.training.steps; }, 0),
      integer(
          {"training", "epochs", "passes", "Passes over the training pairs, at most; 0: as many as steps takes."},
          [](C& c) -> auto& { return c.training.epochs; }, 0, kMaxEpochs),
      number(
          {"training", "rate", "per update", "The highest learning rate; above 0."},
          [](C& c) -> auto& { return c.training.schedule.rate; }, kUnbounded, kRequired),
      choice({"training", "schedule", "-", "How the learning rate falls after the warm-up."},
             [](C& c) -> auto& { return c.training.schedule.decay; },
             {{"inverse_sqrt", Decay::inverse_sqrt}, {"cosine", Decay::cosine}}),
      integer(
          {"training", "warmup", "updates", "In which the learning rate rises from 0 to the highest."},
          [](C& c) -> auto& { return c.training.schedule.warmup; }, 0),
      integer(
          {"training", "batch_tokens", "tokens", "Tokens of a batch, at most, both sides together."},
          [](C& c) -> auto& { return c.training.batch_tokens; }, 1),
      integer(
          {"training", "accumulate", "batches", "Batches whose gradients make one update."},
          [](C& c) -> auto& { return c.training.accumulate; }, 1),
      number({"training", "clip", "norm", "Largest norm of all gradients together, per target token; 0: any."},
             [](C& c) -> auto& { return c.training.clip; }),
      number(
          {"training", "label_smoothing", "probability", "Share of each target that is spread over all tokens."},
          [](C& c) -> auto& { return c.label_smoothing; }, 1),
      choice({"training", "optimizer", "-",
              "AdamW lets weights shrink by rate * weight_decay; Adam adds weight_decay * weight to their gradients."},
             [](C& c) -> auto& { return c.training.adam.decay; },
             {{"adam", WeightDecay::in_gradient}, {"adamw", WeightDecay::decoupled}}),
      number(
          {"training", "beta1", "-", "How much of its mean gradient Adam keeps in an update."},
          [](C& c) -> auto& { return c.training.adam.beta1; }, 1),
      number(
          {"training", "beta2", "-", "The same of the mean of the squares."},
          [](C& c) -> auto& { return c.training.adam.beta2; }, 1),
      number({"training", "epsilon", "-", "What Adam adds to the root of that mean; above 0."},
             [](C& c) -> auto& { return c.training.adam.epsilon; }),
      number({"training", "weight_decay", "-", "How strongly weights are drawn to 0; see optimizer."},
             [](C& c) -> auto& { return c.training.adam.weight_decay; }),
      integer(
          {"training", "max_length", "tokens",
           "Longest side of a pair to train on, its end token included; at most model.positions."},
          [](C& c) -> auto& { return c.max_length; }, 2, kMaxLayerSize, "model.positions"),
      choice({"training", "long_pairs", "-",
              "What becomes of longer pairs; truncate keeps their beginning and the end token."},
             [](C& c) -> auto& { return c.long_pairs; },
             {{"leave_out", LongPairs::leave_out}, {"truncate", LongPairs::truncate}}),
      integer(
          {"training", "seed", "-", "Of every random draw: weights, order of the pairs, dropout."},
          [](C& c) -> auto& { return c.training.seed; }, 0),
      integer(
          {"training", "log_every", "updates", "From one line of log.jsonl to the next."},
          [](C& c) -> auto& { return c.training.log_every; }, 1),
      integer(
          {"training", "validate_every", "updates",
           "From one validation, and its checkpoint, to the next; the end is validated in any case."},
          [](C& c) -> auto& { return c.training.validate_every; }, 1),
      number({"training", "checkpoint_minutes", "minutes",
              "A checkpoint also after so much time without one; 0: at validations alone."},
             [](C& c) -> auto& { return c.training.checkpoint_minutes; }),
      integer(
          {"training", "patience", "validations",
           "So many in a row without a better loss end the training; 0: none does."},
          [](C& c) -> auto& { return c.training.patience; }, 0),
      integer(
          {"training", "average", "checkpoints",
           "So many, the best one and those before it: their mean is the result if it validates better than the best."},
          [](C& c) -> auto& { return c.training.average; }, 1),
  };
}

}  // namespace

std::span<const TrainKey> train_keys() {
  static const std::vector<TrainKey> keys = make_keys();
  return keys;
}

}  // namespace qkv::training
