// Marian::load and Marian::save: config.json and MarianConfig, and the names of the tensors there and here.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/json_document.h"
#include "io/quote.h"
#include "layers/check_size.h"
#include "models/marian_names.h"
#include "qkv/files.h"
#include "qkv/marian.h"

namespace qkv {
namespace {

constexpr std::size_t kMaxConfigBytes = 1 << 20;
constexpr std::int64_t kMaxLayers = 1024;

const std::vector<std::pair<std::string, Activation>>& activations() {
  static const std::vector<std::pair<std::string, Activation>> names = {
      {"relu", Activation::relu}, {"gelu", Activation::gelu}, {"swish", Activation::silu}, {"silu", Activation::silu}};
  return names;
}

Activation activation_of(const io::JsonValue& value) {
  for (const auto& [name, activation] : activations()) {
    if (value.string() == name) return activation;
  }
  value.refuse("must be \"relu\", \"gelu\", \"swish\" or \"silu\"");
}

std::string name_of(Activation activation) {
  for (const auto& [name, own] : activations()) {
    if (own == activation) return name;
  }
  return "";
}

struct KindNames {
  MarianKind kind;
  const char *type, *architecture;
};
constexpr KindNames kKinds[] = {{MarianKind::marian, "marian", "MarianMTModel"},
                                {MarianKind::bart, "bart", "BartForConditionalGeneration"}};

MarianKind kind_of(const io::JsonValue& type) {
  for (const KindNames& names : kKinds) {
    if (type.string() == names.type) return names.kind;
  }
  type.refuse(
      fmt::format("is {}; the encoder-decoders known here are \"marian\" and \"bart\"", io::quote(type.string())));
}

const KindNames& names_of(MarianKind kind) {
  return *std::find_if(std::begin(kKinds), std::end(kKinds), [&](const KindNames& one) { return one.kind == kind; });
}

// A switch that this model knows in one position only.
void require_flag(const io::JsonValue& root, const std::string& key, bool wanted) {
  const auto value = root.find(key);
  if (value && value->boolean() != wanted) value->refuse(fmt::format("must be {} for this model", wanted));
}

std::string config_json(const MarianConfig& config, Dtype dtype) {
  const char* type = dtype == Dtype::bf16 ? "bfloat16" : dtype == Dtype::f16 ? "float16" : "float32";
  const KindNames& names = names_of(config.kind);
  const bool bart = config.kind == MarianKind::bart;
  return nlohmann::ordered_json{{"architectures", {names.architecture}},
                                {"model_type", names.type},
                                {"is_encoder_decoder", true},
                                {"vocab_size", config.vocab},
                                {"decoder_vocab_size", config.vocab},
                                {"max_position_embeddings", config.positions},
                                {"d_model", config.model_dim},
                                {"encoder_layers", config.encoder_layers},
                                {"decoder_layers", config.decoder_layers},
                                {"encoder_attention_heads", config.encoder_heads},
                                {"decoder_attention_heads", config.decoder_heads},
                                {"encoder_ffn_dim", config.encoder_ff_dim},
                                {"decoder_ffn_dim", config.decoder_ff_dim},
                                {"activation_function", name_of(config.activation)},
                                {"scale_embedding", config.scale_embedding},
                                {"normalize_before", false},
                                {"normalize_embedding", bart},
                                {"add_final_layer_norm", false},
                                {"static_position_embeddings", !bart},
                                {"share_encoder_decoder_embeddings", true},
                                {"tie_word_embeddings", true},
                                {"eos_token_id", config.end},
                                {"forced_eos_token_id", config.end},
                                {"pad_token_id", config.padding},
                                {"decoder_start_token_id", config.start},
                                {"dtype", type}}
             .dump(2) +
         "\n";
}

std::string generation_json(const MarianConfig& config) {
  using Json = nlohmann::ordered_json;
  Json json = Json::object();
  if (config.kind == MarianKind::marian) json["bad_words_ids"] = Json::array({Json::array({config.padding})});
  json.update(Json{{"decoder_start_token_id", config.start},
                   {"eos_token_id", config.end},
                   {"forced_eos_token_id", config.end},
                   {"max_length", config.positions},
                   {"num_beams", 4},
                   {"pad_token_id", config.padding}});
  return json.dump(2) + "\n";
}

std::map<std::string, Tensor> read_tensors(const std::string& folder, const MarianConfig& config) {
  FolderTensors file(folder);
  // A bare model lacks what makes logits of hidden states: a bias of 0.
  const bool bare = file.contains("shared.weight") && !file.contains("model.shared.weight");
  const std::string prefix = bare ? "" : "model.";
  for (const std::string& other : {prefix + "encoder.embed_tokens.weight", prefix + "decoder.embed_tokens.weight",
                                   std::string("lm_head.weight")}) {
    file.tie(other, prefix + "shared.weight");
  }
  if (config.kind == MarianKind::marian) {  // sinusoids, which follow from the config
    file.pass_over([&](std::string_view name) {
      return name == prefix + "encoder.embed_positions.weight" || name == prefix + "decoder.embed_positions.weight";
    });
  }
  std::vector<TensorName> names = marian_names(config, prefix);
  if (!bare) names.push_back({kLogitsBias, {1, config.vocab}, {kLogitsBias}});
  std::map<std::string, Tensor> ours = file.read(names);
  Tensor& bias = ours[kLogitsBias];
  bias = bare ? Tensor::zeros({config.vocab}) : Tensor::copy(bias.view().reshape({config.vocab}));
  return ours;
}

}  // namespace

MarianConfig Marian::read_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const io::JsonDocument document(read_file(path, kMaxConfigBytes), path);
  const io::JsonValue root = document.root();
  const MarianKind kind = kind_of(root["model_type"]);
  for (const char* key : {"normalize_before", "add_final_layer_norm"}) require_flag(root, key, false);
  for (const char* key : {"share_encoder_decoder_embeddings", "tie_word_embeddings"}) require_flag(root, key, true);
  require_flag(root, "normalize_embedding", kind == MarianKind::bart);
  require_flag(root, "static_position_embeddings", kind == MarianKind::marian);
  const auto size = [&](const char* key) { return root[key].integer(1, kMaxLayerSize); };
  const auto scale = root.find("scale_embedding");
  MarianConfig config{.kind = kind,
                      .vocab = size("vocab_size"),
                      .positions = size("max_position_embeddings"),
                      .model_dim = size("d_model"),
                      .encoder_layers = root["encoder_layers"].integer(1, kMaxLayers),
                      .decoder_layers = root["decoder_layers"].integer(1, kMaxLayers),
                      .encoder_heads = size("encoder_attention_heads"),
                      .decoder_heads = size("decoder_attention_heads"),
                      .encoder_ff_dim = size("encoder_ffn_dim"),
                      .decoder_ff_dim = size("decoder_ffn_dim"),
                      .activation = activation_of(root["activation_function"]),
                      .scale_embedding = scale && scale->boolean()};
  if (const auto other = root.find("decoder_vocab_size")) other->integer(config.vocab, config.vocab);
  const auto token = [&](const char* key) { return static_cast<std::int32_t>(root[key].integer(0, config.vocab - 1)); };
  config.end = token("eos_token_id");
  config.padding = token("pad_token_id");
  config.start = token("decoder_start_token_id");
  for (const char* key : {"encoder_attention_heads", "decoder_attention_heads"}) {
    const std::int64_t heads = size(key);
    if (config.model_dim % heads != 0) {
      root[key].refuse(fmt::format("is {}, must divide d_model, {}", heads, config.model_dim));
    }
  }
  return config;
}

bool Marian::is_in(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const io::JsonDocument document(read_file(path, kMaxConfigBytes), path);
  const io::JsonValue root = document.root();
  const auto type = root.find("model_type"), pair = root.find("is_encoder_decoder");
  if (pair && pair->boolean()) return true;
  return type && std::any_of(std::begin(kKinds), std::end(kKinds),
                             [&](const KindNames& names) { return type->string() == names.type; });
}

Marian Marian::load(const std::string& folder, WeightStorage storage) {
  const MarianConfig config = read_config(folder);
  Weights weights(read_tensors(folder, config), folder, Dtype::f32, storage);
  return Marian(config, weights);
}

void Marian::save(const std::string& folder, Dtype dtype) const {
  std::map<std::string, const Tensor*> ours;
  visit([&](const std::string& name, const Parameter& parameter) { ours[name] = &parameter.value; });
  std::map<std::string, Tensor> theirs;
  for (const TensorName& named : marian_names(config_)) {
    const TensorView whole = *ours.at(named.ours);
    const std::int64_t rows = whole.size(0) / static_cast<std::int64_t>(named.theirs.size());
    for (std::size_t i = 0; i < named.theirs.size(); ++i) {
      const std::int64_t begin = static_cast<std::int64_t>(i) * rows;
      theirs[named.theirs[i]] = convert(whole.slice(0, begin, begin + rows), dtype);
    }
  }
  theirs[kLogitsBias] = convert(ours.at(kLogitsBias)->view().reshape({1, config_.vocab}), dtype);
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
  write_file(folder + "/config.json", config_json(config_, dtype));
  write_file(folder + "/generation_config.json", generation_json(config_));
}

}  // namespace qkv
