// The keys of a config that trains a recurrent encoder-decoder, and what of it a checkpoint depends on.
#include "lab/models/recurrent_family.h"

#include "lab/models/recurrent_encoder_decoder.h"
#include "lab/models/recurrent_folder.h"
#include "models/model_kinds.h"
#include "train/config/run_identity.h"

namespace qkv {
namespace {

using training::kMaxLayers;
using training::kRequired;
using training::TrainConfig;
using training::TrainKey;

std::vector<TrainKey> make_recurrent_keys() {
  using K = training::KeysOf<TrainConfig>;
  using C = RecurrentEncoderDecoderConfig;
  const auto field = [](auto C::* member) { return training::model_field<RecurrentEncoderDecoder>(member); };
  std::vector<TrainKey> keys{
      K::choice({"model", "attention", "-",
                 "Makes the model recurrent. fixed: no attention, one vector holds the source; additive: attention "
                 "before each step; dot, bilinear: after it."},
                field(&C::kind), recurrent_attention_kinds()),
      K::choice({"model", "cell", "-", "The recurrent cell (lab/layers/recurrent_cell.h)."}, field(&C::cell),
                recurrent_cells()),
      K::size({"model", "model_dim", "elements", "Size of the vector of a token, and of the states."},
              field(&C::model_dim), kRequired),
      K::integer({"model", "layers", "layers", "Recurrent layers of each side."}, field(&C::layers), 1, kMaxLayers),
      K::integer(
          {"model", "directions", "directions", "Directions that the encoder reads in; 2: each has half of model_dim."},
          field(&C::directions), 1, 2),
      K::integer({"model", "positions", "tokens", "Longest source or translation that the model can take."},
                 field(&C::positions), 2, kMaxLayerSize),
  };
  training::add_common_keys(keys);
  return keys;
}

const std::vector<TrainKey>& recurrent_keys() {
  static const std::vector<TrainKey> keys = make_recurrent_keys();
  return keys;
}

void complete_recurrent(const io::JsonValue& root, TrainConfig& config) {
  const auto& model = training::model_config<RecurrentEncoderDecoder>(config);
  if (model.model_dim % model.directions != 0) {
    root["model"]["model_dim"].refuse("must be even: the encoder has two directions, each with half of it");
  }
}

std::unique_ptr<EncoderDecoder> load_recurrent(const std::string& folder, WeightStorage storage) {
  return std::make_unique<RecurrentEncoderDecoder>(RecurrentEncoderDecoder::load(folder, storage));
}

EncoderDecoderTokens check_recurrent(const std::string& folder) {
  return RecurrentEncoderDecoder::check(folder).tokens();
}

constexpr AddedFamily kRecurrent{&load_recurrent, &check_recurrent};

}  // namespace

const training::TrainedFamily& recurrent_family() {
  static constexpr training::TrainedFamily kFamily{"attention", "recurrent translator", &recurrent_keys,
                                                   &complete_recurrent};
  return kFamily;
}

void add_recurrent_family() {
  add_kind({kRecurrentType, &kRecurrent});
  training::add_trained_family(recurrent_family());
}

namespace training {

template <>
const char* TrainedModelOf<RecurrentEncoderDecoder>::own_type() const {
  return kRecurrentType;
}

// One that is added here must be added there.
template <>
std::map<std::string, std::string> TrainedModelOf<RecurrentEncoderDecoder>::identity() const {
  const auto& [kind, cell, vocab, target_vocab, positions, model_dim, layers, directions, end, padding, start] = config;
  return {{"attention", as_identity(kind)},
          {"cell", as_identity(cell)},
          {"vocab", as_identity(vocab)},
          {"target vocab", as_identity(target_vocab)},
          {"positions", as_identity(positions)},
          {"model_dim", as_identity(model_dim)},
          {"layers", as_identity(layers)},
          {"directions", as_identity(directions)},
          {"end", as_identity(end)},
          {"padding", as_identity(padding)},
          {"start", as_identity(start)}};
}

}  // namespace training
}  // namespace qkv
