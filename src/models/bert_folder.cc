// Bert::load: config.json becomes a BertConfig, and the tensors of model.safetensors get the names of our layers.
#include <fmt/format.h>

#include "io/json_document.h"
#include "layers/basic/check_size.h"
#include "models/folder_tensors.h"
#include "qkv/models/bert.h"

namespace qkv {
namespace {

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

// The names of the file, which begin with `prefix`, beside ours.
class Names {
 public:
  Names(const BertConfig& config, std::string prefix) : prefix_(std::move(prefix)) {
    const std::int64_t dim = config.model_dim;
    add("embeddings.word.weight", {config.vocab, dim}, {"embeddings.word_embeddings.weight"});
    add("embeddings.position.weight", {config.positions, dim}, {"embeddings.position_embeddings.weight"});
    add("embeddings.type.weight", {config.types, dim}, {"embeddings.token_type_embeddings.weight"});
    add_norm("embeddings.norm", "embeddings.LayerNorm", dim);
    for (std::int64_t i = 0; i < config.layers; ++i) {
      add_layer(fmt::format("layers.{}.", i), fmt::format("encoder.layer.{}.", i), config);
    }
  }
  std::vector<TensorName> take() { return std::move(all_); }

 private:
  void add(std::string ours, Dims shape, std::vector<std::string> theirs) {
    for (std::string& name : theirs) name = prefix_ + name;
    all_.push_back({std::move(ours), shape, std::move(theirs)});
  }
  void add_norm(const std::string& ours, const std::string& theirs, std::int64_t dim) {
    for (const char* part : {".weight", ".bias"}) add(ours + part, {dim}, {theirs + part});
  }
  void add_linear(const std::string& ours, const std::string& theirs, std::int64_t out, std::int64_t in) {
    add(ours + ".weight", {out, in}, {theirs + ".weight"});
    add(ours + ".bias", {out}, {theirs + ".bias"});
  }
  void add_layer(const std::string& to, const std::string& from, const BertConfig& config) {
    const std::int64_t dim = config.model_dim;
    const auto roles = [&](const std::string& part) {
      const std::string self = from + "attention.self.";
      return std::vector<std::string>{self + "query" + part, self + "key" + part, self + "value" + part};
    };
    add(to + "self_attn.in_proj_weight", {3 * dim, dim}, roles(".weight"));
    add(to + "self_attn.in_proj_bias", {3 * dim}, roles(".bias"));
    add_linear(to + "self_attn.out_proj", from + "attention.output.dense", dim, dim);
    add_norm(to + "norm1", from + "attention.output.LayerNorm", dim);
    add_linear(to + "linear1", from + "intermediate.dense", config.ff_dim, dim);
    add_linear(to + "linear2", from + "output.dense", dim, config.ff_dim);
    add_norm(to + "norm2", from + "output.LayerNorm", dim);
  }

  std::string prefix_;
  std::vector<TensorName> all_;
};

// Whether a forward pass needs no such tensor: "bert." is off the name.
bool is_passed_over(std::string_view name) {
  return name == "embeddings.position_ids" || name.starts_with("pooler.") || name.starts_with("cls.");
}

void expect_tensors(FolderTensors& file, const BertConfig& config) {
  const std::string prefix = file.contains("bert.embeddings.word_embeddings.weight") ? "bert." : "";
  file.pass_over([&](std::string_view name) {
    return is_passed_over(name) || (name.starts_with(prefix) && is_passed_over(name.substr(prefix.size())));
  });
  file.expect(Names(config, prefix).take());
}

}  // namespace

BertConfig Bert::read_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const io::JsonDocument document = io::JsonDocument::of_config(path);
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

BertConfig Bert::check(const std::string& folder) {
  const BertConfig config = read_config(folder);
  FolderTensors file(folder);
  expect_tensors(file, config);
  return config;
}

Bert Bert::load(const std::string& folder) {
  const BertConfig config = read_config(folder);
  FolderTensors file(folder);
  expect_tensors(file, config);
  Weights weights(file.read(), file.path());
  return Bert(config, weights);
}

}  // namespace qkv
