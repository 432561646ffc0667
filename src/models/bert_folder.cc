// Bert::load: config.json becomes a BertConfig, and the tensors of model.safetensors get the names of our layers.
#include <fmt/format.h>

#include "io/json_document.h"
#include "layers/check_size.h"
#include "layers/rows.h"
#include "qkv/bert.h"
#include "qkv/files.h"

namespace qkv {
namespace {

constexpr std::size_t kMaxConfigBytes = 1 << 20;
constexpr std::int64_t kMaxLayers = 1024;

Activation activation_of(const io::JsonValue& value) {
  if (value.string() == "gelu") return Activation::gelu;
  if (value.string() == "relu") return Activation::relu;
  value.refuse("must be \"gelu\" or \"relu\"");
}

void require_string(const io::JsonValue& root, const std::string& key, const std::string& wanted) {
  const auto value = root.find(key);
  if (value && value->string() != wanted) value->refuse(fmt::format("must be \"{}\" for this model", wanted));
}

BertConfig read_config(const std::string& path) {
  const io::JsonDocument document(read_file(path, kMaxConfigBytes), path);
  const io::JsonValue root = document.root();
  require_string(root, "model_type", "bert");
  require_string(root, "position_embedding_type", "absolute");
  if (const auto decoder = root.find("is_decoder"); decoder && decoder->boolean()) {
    decoder->refuse("must be false: this is an encoder");
  }
  const auto size = [&](const char* key) { return root[key].integer(1, kMaxLayerSize); };
  const BertConfig config{.vocab = size("vocab_size"),
                          .positions = size("max_position_embeddings"),
                          .types = size("type_vocab_size"),
                          .model_dim = size("hidden_size"),
                          .layers = root["num_hidden_layers"].integer(1, kMaxLayers),
                          .heads = size("num_attention_heads"),
                          .ff_dim = size("intermediate_size"),
                          .activation = activation_of(root["hidden_act"]),
                          .epsilon = root["layer_norm_eps"].number()};
  if (config.model_dim % config.heads != 0) {
    root["num_attention_heads"].refuse(
        fmt::format("is {}, must divide hidden_size, {}", config.heads, config.model_dim));
  }
  if (!(config.epsilon >= 0 && config.epsilon < 1)) root["layer_norm_eps"].refuse("must be 0 or more, below 1");
  return config;
}

// Moves tensors from the names of the file to ours; several under one of our names lie one below the other.
class Renaming {
 public:
  Renaming(Weights file, std::string prefix) : file_(std::move(file)), prefix_(std::move(prefix)) {}

  void move(const std::string& from, const std::string& to, const Dims& shape) {
    parts_[to].push_back(file_.take(prefix_ + from, shape));
  }
  // weight [out, in] and bias [out].
  void move_linear(const std::string& from, const std::string& weight, const std::string& bias, std::int64_t out,
                   std::int64_t in) {
    move(from + ".weight", weight, {out, in});
    move(from + ".bias", bias, {out});
  }
  void move_norm(const std::string& from, const std::string& to, std::int64_t dim) {
    move(from + ".weight", to + ".weight", {dim});
    move(from + ".bias", to + ".bias", {dim});
  }

  std::map<std::string, Tensor> finish() {
    file_.expect_empty();
    std::map<std::string, Tensor> ours;
    for (auto& [name, parts] : parts_) ours[name] = stack_rows(std::move(parts));
    return ours;
  }

 private:
  Weights file_;
  std::string prefix_;
  std::map<std::string, std::vector<Tensor>> parts_;
};

void move_layer(Renaming& names, const BertConfig& config, std::int64_t layer) {
  const std::string from = fmt::format("encoder.layer.{}.", layer), to = fmt::format("layers.{}.", layer);
  const std::int64_t dim = config.model_dim;
  for (const char* role : {"query", "key", "value"}) {
    names.move_linear(from + "attention.self." + role, to + "self_attn.in_proj_weight", to + "self_attn.in_proj_bias",
                      dim, dim);
  }
  names.move_linear(from + "attention.output.dense", to + "self_attn.out_proj.weight", to + "self_attn.out_proj.bias",
                    dim, dim);
  names.move_norm(from + "attention.output.LayerNorm", to + "norm1", dim);
  names.move_linear(from + "intermediate.dense", to + "linear1.weight", to + "linear1.bias", config.ff_dim, dim);
  names.move_linear(from + "output.dense", to + "linear2.weight", to + "linear2.bias", dim, config.ff_dim);
  names.move_norm(from + "output.LayerNorm", to + "norm2", dim);
}

// Whether a forward pass needs no such tensor: "bert." is off the name.
bool is_passed_over(std::string_view name) {
  return name == "embeddings.position_ids" || name.starts_with("pooler.") || name.starts_with("cls.");
}

std::map<std::string, Tensor> read_tensors(const std::string& path, const BertConfig& config) {
  std::map<std::string, Tensor> tensors = read_safetensors(path).tensors;
  const std::string prefix = tensors.contains("bert.embeddings.word_embeddings.weight") ? "bert." : "";
  std::erase_if(tensors, [&](const auto& entry) {
    const std::string_view name = entry.first;
    return is_passed_over(name) || (name.starts_with(prefix) && is_passed_over(name.substr(prefix.size())));
  });
  Renaming names(Weights(std::move(tensors), path), prefix);
  const std::int64_t dim = config.model_dim;
  names.move("embeddings.word_embeddings.weight", "embeddings.word.weight", {config.vocab, dim});
  names.move("embeddings.position_embeddings.weight", "embeddings.position.weight", {config.positions, dim});
  names.move("embeddings.token_type_embeddings.weight", "embeddings.type.weight", {config.types, dim});
  names.move_norm("embeddings.LayerNorm", "embeddings.norm", dim);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) move_layer(names, config, layer);
  return names.finish();
}

}  // namespace

Bert Bert::load(const std::string& folder) {
  const BertConfig config = read_config(folder + "/config.json");
  const std::string path = folder + "/model.safetensors";
  Weights weights(read_tensors(path, config), path);
  return Bert(config, weights);
}

}  // namespace qkv
