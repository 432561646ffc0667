// Qwen2: Llama with biases of queries, keys and values; Qwen3: with norms of queries and keys instead.
// Sources: Yang et al., "Qwen2 technical report" (2024), "Qwen3 technical report" (2025).
#include "models/language/language_kind.h"

namespace qkv::inline models {
namespace {

// The layers from max_window_layers on have windows, if any has.
LanguageModelConfig read_qwen(const ModelConfig& json) {
  LanguageModelConfig config = read_llama(json);
  if (!json.flag("use_sliding_window", false)) return config;
  const auto first = json.find("max_window_layers");
  const std::int64_t from = first ? first->integer(0, 1 << 20) : 28;
  add_windows(json, config, windowed_layers(json, std::ssize(config.layers), [from](std::size_t layer) {
                return static_cast<std::int64_t>(layer) >= from;
              }));
  return config;
}

LanguageModelConfig read_qwen2(const ModelConfig& json) {
  LanguageModelConfig config = read_qwen(json);
  for (TransformerLayerConfig& layer : config.layers) {
    layer.attention_bias = {.query = true, .key = true, .value = true, .out = false};
  }
  return config;
}

LanguageModelConfig read_qwen3(const ModelConfig& json) {
  LanguageModelConfig config = read_qwen(json);
  const bool bias = json.flag("attention_bias", false);
  for (TransformerLayerConfig& layer : config.layers) {
    layer.attention_bias = {.query = bias, .key = bias, .value = bias, .out = bias};
    layer.query_key_norm = layer.epsilon;
  }
  return config;
}

}  // namespace

const LanguageKind kQwen2{.read = read_qwen2};
const LanguageKind kQwen3{.read = read_qwen3};

}  // namespace qkv::inline models
