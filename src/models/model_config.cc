// Reads the keys of a config.json with their rules, and lists the names of activations once.
#include "models/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "io/files/text.h"
#include "layers/basic/layer_checks.h"
#include "models/gguf_folder.h"

namespace qkv::inline models {
namespace {

constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxLabels = 1 << 20;

// Keys of transformers' base class; both change which weights there are.
constexpr FixedKey kOfEveryClass[] = {{"pruned_heads", "{}"}, {"quantization_config", "null"}};

}  // namespace

const char* transformers_dtype(Dtype dtype) {
  return dtype == Dtype::bf16 ? "bfloat16" : dtype == Dtype::f16 ? "float16" : "float32";
}

std::string quoted_list(const std::vector<std::string>& names, std::string_view word) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 < names.size() ? ", " : fmt::format(" {} ", word);
    list += fmt::format("\"{}\"", names[i]);
  }
  return list;
}

io::JsonDocument folder_document(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  if (!is_gguf(folder)) return io::JsonDocument::of_config(path);
  return io::JsonDocument(GgufFolder(folder).text(name), path);
}

ModelConfig::ModelConfig(const std::string& folder) : document_(folder_document(folder, "config.json")) {}

std::int64_t ModelConfig::size(const std::string& key) const { return (*this)[key].integer(1, kMaxLayerSize); }

std::int64_t ModelConfig::layers(const std::string& key) const { return (*this)[key].integer(1, kMaxLayers); }

std::int64_t ModelConfig::heads(const std::string& key, const std::string& dim_key) const {
  const std::int64_t heads = size(key), dim = size(dim_key);
  if (dim % heads != 0) (*this)[key].refuse(fmt::format("is {}, must divide {}, {}", heads, dim_key, dim));
  return heads;
}

Activation ModelConfig::activation(const std::string& key) const {
  const io::JsonValue value = (*this)[key];
  std::vector<std::string> known;
  for (const auto& [name, activation] : activation_names()) {
    if (value.string() == name) return activation;
    known.push_back(name);
  }
  value.refuse(fmt::format("must be {}, is {}", quoted_list(known, "or"), io::quote(value.string())));
}

double ModelConfig::epsilon(const std::string& key) const {
  const io::JsonValue value = (*this)[key];
  if (!(value.number() >= 0 && value.number() < 1)) value.refuse("must be 0 or more, below 1");
  return value.number();
}

std::int32_t ModelConfig::token(const std::string& key, std::int64_t vocab) const {
  return static_cast<std::int32_t>((*this)[key].integer(0, vocab - 1));
}

bool ModelConfig::flag(const std::string& key, bool otherwise) const {
  const auto value = find(key);
  return value ? value->boolean() : otherwise;
}

std::vector<std::string> ModelConfig::labels() const {
  const auto names = find("id2label");
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

void ModelConfig::expect(std::span<const FixedKey> keys) const {
  for (const FixedKey& fixed : kOfEveryClass) expect_one(fixed);
  for (const FixedKey& fixed : keys) expect_one(fixed);
}

void ModelConfig::expect_one(const FixedKey& fixed) const {
  const auto value = find(fixed.key);
  if (value && !value->is(fixed.value)) value->refuse(fmt::format("must be {} for this model", fixed.value));
}

const std::vector<std::pair<std::string, Activation>>& activation_names() {
  static const std::vector<std::pair<std::string, Activation>> names = {
      {"relu", Activation::relu},          {"gelu", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"swish", Activation::silu},         {"silu", Activation::silu}};
  return names;
}

const std::string& name_of(Activation activation) {
  const auto& names = activation_names();
  return std::find_if(names.begin(), names.end(), [&](const auto& named) { return named.second == activation; })->first;
}

}  // namespace qkv::inline models
