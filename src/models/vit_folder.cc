// Converts between the files of a Vision Transformer's folder and a VitConfig and Weights.
#include "models/vit_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "layers/basic/check_size.h"
#include "models/activation_names.h"
#include "models/model_kinds.h"
#include "qkv/files.h"

namespace qkv::inline models {
namespace {

constexpr std::int64_t kMaxLabels = 1 << 20;
constexpr FixedKey kVitFixed[] = {{"qkv_bias", "true"}, {"use_swiglu_ffn", "false"}};

// A number for both sides, or [height, width].
PictureSize read_size(const ModelConfig& json, const std::string& key) {
  const io::JsonValue value = json[key];
  if (!value.is_list()) return {json.size(key), json.size(key)};
  const std::vector<io::JsonValue> sides = value.elements();
  if (sides.size() != 2) value.refuse("must be one number, or height and width");
  return {sides[0].integer(1, kMaxLayerSize), sides[1].integer(1, kMaxLayerSize)};
}

// The names under "0", "1", ... of id2label; two without a name of their own if there is none, as in transformers.
std::vector<std::string> read_labels(const ModelConfig& json) {
  const auto names = json.find("id2label");
  if (!names) return {"LABEL_0", "LABEL_1"};
  std::map<std::string, std::string> by_number;
  names->for_each_member(
      [&](const std::string& number, const io::JsonValue& name) { by_number[number] = name.string(); });
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < by_number.size(); ++i) {
    const auto found = by_number.find(std::to_string(i));
    if (found == by_number.end()) names->refuse(fmt::format("has {} names, but none for {}", by_number.size(), i));
    labels.push_back(found->second);
  }
  if (labels.empty() || std::ssize(labels) > kMaxLabels) names->refuse("must name at least one class");
  return labels;
}

std::int64_t read_ff_dim(const ModelConfig& json, VitKind kind) {
  if (kind == VitKind::vit) return json.size("intermediate_size");
  const double ratio = json["mlp_ratio"].number(), dim = ratio * static_cast<double>(json.size("hidden_size"));
  if (!(dim >= 1 && dim <= static_cast<double>(kMaxLayerSize))) json["mlp_ratio"].refuse("is out of range");
  return static_cast<std::int64_t>(dim);
}

TensorNames vit_names(const VitConfig& config, const std::string& prefix) {
  const std::int64_t dim = config.model_dim, patch = config.patch.height * config.patch.width;
  const std::int64_t grid = (config.picture.height / config.patch.height) * (config.picture.width / config.patch.width);
  TensorNames names(prefix);
  const std::string projection = "embeddings.patch_embeddings.projection.";
  names.add_reshaped("embeddings.projection.weight", {dim, config.channels * patch}, projection + "weight",
                     {dim, config.channels, config.patch.height, config.patch.width});
  names.add("embeddings.projection.bias", {dim}, {projection + "bias"});
  names.add_reshaped("embeddings.class_token", {dim}, "embeddings.cls_token", {1, 1, dim});
  names.add_reshaped("embeddings.positions.weight", {1 + grid, dim}, "embeddings.position_embeddings",
                     {1, 1 + grid, dim});
  const bool dino = config.kind == VitKind::dinov2;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string to = fmt::format("layers.{}.", i), from = fmt::format("encoder.layer.{}.", i);
    const std::string self = from + "attention.attention.";
    names.add_norm(to + "norm1", from + (dino ? "norm1" : "layernorm_before"), dim);
    names.add_attention(to + "self_attn", {self + "query", self + "key", self + "value"},
                        from + "attention.output.dense", dim);
    names.add_norm(to + "norm2", from + (dino ? "norm2" : "layernorm_after"), dim);
    names.add_linear(to + "linear1", from + (dino ? "mlp.fc1" : "intermediate.dense"), config.ff_dim, dim);
    names.add_linear(to + "linear2", from + (dino ? "mlp.fc2" : "output.dense"), dim, config.ff_dim);
    if (!dino) continue;
    names.add(to + "norm1.layer_scale.weight", {dim}, {from + "layer_scale1.lambda1"});
    names.add(to + "norm2.layer_scale.weight", {dim}, {from + "layer_scale2.lambda1"});
  }
  names.add_norm("norm", "layernorm", dim);
  if (config.labels.empty()) return names;
  const std::int64_t labels = std::ssize(config.labels);
  names.add_head("classifier.weight", {labels, dino ? 2 * dim : dim});
  names.add_head("classifier.bias", {labels});
  return names;
}

const ModelKind& kind_of(VitKind kind) {
  return *std::ranges::find_if(model_kinds(),
                               [&](const ModelKind& known) { return known.vit != nullptr && known.vit->kind == kind; });
}

std::string prefix_of(VitKind kind) { return std::string(kind_of(kind).type) + "."; }

std::string config_json(const VitConfig& config, Dtype dtype) {
  using Json = nlohmann::ordered_json;
  const ModelKind& kind = kind_of(config.kind);
  const bool has_labels = !config.labels.empty();
  const auto both = [](const PictureSize& size) {
    return size.height == size.width ? Json(size.height) : Json::array({size.height, size.width});
  };
  Json json = Json::object();
  json.update({{"architectures", {has_labels ? kind.vit->classifier : kind.vit->model}},
               {"model_type", kind.type},
               {"image_size", both(config.picture)},
               {"patch_size", both(config.patch)},
               {"num_channels", config.channels},
               {"hidden_size", config.model_dim},
               {"num_hidden_layers", config.layers},
               {"num_attention_heads", config.heads},
               {"hidden_act", name_of(config.activation)},
               {"layer_norm_eps", config.epsilon},
               {"qkv_bias", true},
               {"dtype", std::string(transformers_dtype(dtype))}});
  if (config.kind == VitKind::vit) {
    json["intermediate_size"] = config.ff_dim;
  } else {
    if (config.ff_dim % config.model_dim == 0) {
      json["mlp_ratio"] = config.ff_dim / config.model_dim;
    } else {
      json["mlp_ratio"] = static_cast<double>(config.ff_dim) / static_cast<double>(config.model_dim);
    }
    json["use_swiglu_ffn"] = false;
  }
  if (has_labels) {
    Json names = Json::object(), numbers = Json::object();
    for (std::size_t i = 0; i < config.labels.size(); ++i) {
      names[std::to_string(i)] = config.labels[i];
      numbers[config.labels[i]] = i;
    }
    json.update({{"id2label", names}, {"label2id", numbers}});
  }
  return json.dump(2) + "\n";
}

}  // namespace

bool is_vit_folder(const std::string& folder) {
  const ModelConfig json(folder);
  const auto type = json.find("model_type");
  return type && std::ranges::any_of(model_kinds(), [&](const ModelKind& kind) {
           return kind.vit != nullptr && type->string() == kind.type;
         });
}

VitConfig read_vit_config(const std::string& folder) {
  const ModelConfig json(folder);
  const VitFamily& family = part_of_kind(json["model_type"], &ModelKind::vit, "Vision Transformers");
  json.expect(kVitFixed);
  VitConfig config{.kind = family.kind,
                   .picture = read_size(json, "image_size"),
                   .patch = read_size(json, "patch_size"),
                   .channels = json.find("num_channels") ? json.size("num_channels") : 3,
                   .model_dim = json.size("hidden_size"),
                   .layers = json.layers("num_hidden_layers"),
                   .heads = json.heads("num_attention_heads", "hidden_size"),
                   .ff_dim = read_ff_dim(json, family.kind),
                   .activation = json.activation("hidden_act"),
                   .epsilon = json.epsilon("layer_norm_eps"),
                   .labels = read_labels(json)};
  if (config.patch.height > config.picture.height || config.patch.width > config.picture.width) {
    json["patch_size"].refuse("must not be larger than image_size");
  }
  return config;
}

VitFolder::VitFolder(const std::string& folder) : config_(read_vit_config(folder)), tensors_(folder) {
  if (!tensors_.contains("classifier.weight")) config_.labels.clear();
  const std::string whole = prefix_of(config_.kind);
  const std::string prefix = tensors_.contains(whole + "embeddings.cls_token") ? whole : "";
  tensors_.pass_over([&](std::string_view name) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    return name == "embeddings.mask_token" || name.starts_with("pooler.");
  });
  tensors_.expect(vit_names(config_, prefix).all());
}

void write_vit_folder(const std::string& folder, const Vit& model, Dtype dtype) {
  const VitConfig& config = model.config();
  const TensorNames names = vit_names(config, config.labels.empty() ? "" : prefix_of(config.kind));
  std::map<std::string, Tensor> theirs;
  model.visit([&](const std::string& name, const Parameter& own) { names.add_theirs(name, own.value, dtype, theirs); });
  write_file(folder + "/config.json", config_json(config, dtype));
  // Last: a folder that has weights is whole.
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
}

}  // namespace qkv::inline models
