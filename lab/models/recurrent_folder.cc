// Converts between the files of a recurrent encoder-decoder's folder and a RecurrentEncoderDecoderConfig and Weights.
#include "lab/models/recurrent_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/files/text.h"
#include "lab/layers/recurrent.h"
#include "lab/layers/recurrent_pass.h"
#include "models/encoder_decoders/target_tokens.h"
#include "models/encoder_decoders/transformer_encoder_decoder_folder.h"
#include "models/model_config.h"
#include "models/tensor_names.h"
#include "qkv/files.h"

namespace qkv::inline models {
namespace {

template <class Choice>
Choice choice_of(const io::JsonValue& value, const std::vector<std::pair<std::string, Choice>>& names) {
  std::vector<std::string> known;
  for (const auto& [name, choice] : names) {
    if (value.string() == name) return choice;
    known.push_back(name);
  }
  value.refuse("must be " + quoted_list(known, "or"));
}

template <class Choice>
std::string name_of(Choice choice, const std::vector<std::pair<std::string, Choice>>& names) {
  return std::ranges::find(names, choice, &std::pair<std::string, Choice>::second)->first;
}

RecurrentEncoderDecoderConfig read_config(const std::string& folder) {
  const ModelConfig json(folder);
  if (json["model_type"].string() != kRecurrentType) {
    json["model_type"].refuse(
        fmt::format("is {}, must be \"{}\"", io::quote(json["model_type"].string()), kRecurrentType));
  }
  RecurrentEncoderDecoderConfig config{.kind = choice_of(json["attention"], recurrent_attention_kinds()),
                                       .cell = choice_of(json["cell"], recurrent_cells()),
                                       .vocab = json.size("vocab_size"),
                                       .positions = json.size("max_position_embeddings"),
                                       .model_dim = json.size("d_model"),
                                       .layers = static_cast<int>(json.layers("num_layers")),
                                       .directions = static_cast<int>(json["encoder_directions"].integer(1, 2))};
  if (config.model_dim % config.directions != 0) {
    json["d_model"].refuse("must be even: the encoder has two directions, each with half of it");
  }
  if (!json.flag("share_encoder_decoder_embeddings", true)) config.target_vocab = json.size("decoder_vocab_size");
  config.end = json.token("eos_token_id", std::min(config.vocab, config.output_vocab()));
  config.padding = json.token("pad_token_id", config.output_vocab());
  config.start = json.token("decoder_start_token_id", config.output_vocab());
  return config;
}

// Ours and those of the folder are the same.
class Names {
 public:
  void add(const std::string& name, const Dims& shape) { names_.add(name, shape, {name}); }
  void add_recurrent(const std::string& scope, const RecurrentConfig& config) {
    const std::int64_t wide = gates_of(config.cell) * config.hidden;
    for (int layer = 0; layer < config.layers; ++layer) {
      for (int d = 0; d < config.directions; ++d) {
        const std::string suffix = "_l" + std::to_string(layer) + (d == 1 ? "_reverse" : "");
        add(scope + "weight_ih" + suffix, {wide, layer == 0 ? config.in : config.directions * config.hidden});
        add(scope + "weight_hh" + suffix, {wide, config.hidden});
        add(scope + "bias_ih" + suffix, {wide});
        add(scope + "bias_hh" + suffix, {wide});
      }
    }
  }
  const TensorNames& all() const { return names_; }

 private:
  TensorNames names_{""};
};

TensorNames names_of(const RecurrentEncoderDecoderConfig& config) {
  const std::int64_t dim = config.model_dim;
  const bool two = config.target_vocab > 0;
  Names names;
  if (two) names.add("encoder.embed_tokens.weight", {config.vocab, dim});
  names.add(two ? "decoder.embed_tokens.weight" : "shared.weight", {config.output_vocab(), dim});
  names.add(kLogitsBias, {config.output_vocab()});
  names.add_recurrent("encoder.rnn.", {.cell = config.cell,
                                       .in = dim,
                                       .hidden = dim / config.directions,
                                       .layers = config.layers,
                                       .directions = config.directions});
  const bool additive = config.kind == RecurrentAttentionKind::additive;
  names.add_recurrent("decoder.rnn.",
                      {.cell = config.cell, .in = additive ? 2 * dim : dim, .hidden = dim, .layers = config.layers});
  if (additive) {
    names.add("attention.w_query", {dim, dim});
    names.add("attention.w_key", {dim, dim});
    names.add("attention.v", {dim});
  }
  if (config.kind == RecurrentAttentionKind::bilinear) names.add("attention.w", {dim, dim});
  if (config.kind != RecurrentAttentionKind::fixed) {
    names.add("readout.weight", {dim, 2 * dim});
    names.add("readout.bias", {dim});
  }
  return names.all();
}

std::string config_json(const RecurrentEncoderDecoderConfig& config, Dtype dtype) {
  const nlohmann::ordered_json json{{"model_type", kRecurrentType},
                                    {"is_encoder_decoder", true},
                                    {"attention", name_of(config.kind, recurrent_attention_kinds())},
                                    {"cell", name_of(config.cell, recurrent_cells())},
                                    {"vocab_size", config.vocab},
                                    {"decoder_vocab_size", config.output_vocab()},
                                    {"max_position_embeddings", config.positions},
                                    {"d_model", config.model_dim},
                                    {"num_layers", config.layers},
                                    {"encoder_directions", config.directions},
                                    {"share_encoder_decoder_embeddings", config.target_vocab == 0},
                                    {"eos_token_id", config.end},
                                    {"pad_token_id", config.padding},
                                    {"decoder_start_token_id", config.start},
                                    {"dtype", transformers_dtype(dtype)}};
  return json.dump(2) + "\n";
}

}  // namespace

const std::vector<std::pair<std::string, RecurrentAttentionKind>>& recurrent_attention_kinds() {
  static const std::vector<std::pair<std::string, RecurrentAttentionKind>> kinds = {
      {"fixed", RecurrentAttentionKind::fixed},
      {"additive", RecurrentAttentionKind::additive},
      {"dot", RecurrentAttentionKind::dot},
      {"bilinear", RecurrentAttentionKind::bilinear}};
  return kinds;
}

const std::vector<std::pair<std::string, RecurrentCell>>& recurrent_cells() {
  static const std::vector<std::pair<std::string, RecurrentCell>> cells = {{"rnn_tanh", RecurrentCell::rnn_tanh},
                                                                           {"rnn_relu", RecurrentCell::rnn_relu},
                                                                           {"lstm", RecurrentCell::lstm},
                                                                           {"gru", RecurrentCell::gru}};
  return cells;
}

RecurrentFolder::RecurrentFolder(const std::string& folder) : config_(read_config(folder)), tensors_(folder) {
  tensors_.expect(names_of(config_).all());
}

void write_recurrent_folder(const std::string& folder, const RecurrentEncoderDecoder& model, Dtype dtype) {
  const TensorNames names = names_of(model.config());
  std::map<std::string, Tensor> theirs;
  model.visit([&](const std::string& name, const Parameter& own) { names.add_theirs(name, own.value, dtype, theirs); });
  write_file(folder + "/config.json", config_json(model.config(), dtype));
  write_file(folder + "/generation_config.json", generation_json(model.tokens(), model.tokens().padding));
  // Last: a folder that has weights is whole.
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
}

}  // namespace qkv::inline models
