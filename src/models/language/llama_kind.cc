// Llama and Mistral: the keys of their config.json, which those after them share.
// Sources: Touvron et al., "LLaMA: open and efficient foundation language models" (2023); Jiang et al., "Mistral 7B"
// (2023).
#include <fmt/format.h>

#include "layers/basic/layer_checks.h"
#include "models/language/language_kind.h"

namespace qkv::inline models {
namespace {

constexpr std::string_view kLlamaPassedOver[] = {"rotary_emb.inv_freq"};

LanguageModelConfig read_llama_own(const ModelConfig& json) {
  LanguageModelConfig config = read_llama(json);
  const bool attention = json.flag("attention_bias", false), feed_forward = json.flag("mlp_bias", false);
  for (TransformerLayerConfig& layer : config.layers) {
    layer.attention_bias = {.query = attention, .key = attention, .value = attention, .out = attention};
    layer.feed_forward_bias = feed_forward;
  }
  return config;
}

}  // namespace

const LanguageKind kLlama{.read = read_llama_own, .passed_over = kLlamaPassedOver};
const LanguageKind kMistral{.read = [](const ModelConfig& json) { return read_mistral(json); }};

LanguageModelConfig read_llama(const ModelConfig& json, const RotaryDefaults& rotary) {
  LanguageModelConfig config{.vocab = json.size("vocab_size"),
                             .model_dim = json.size("hidden_size"),
                             .tied = json.flag("tie_word_embeddings", false)};
  TransformerLayerConfig layer{.model_dim = config.model_dim,
                               .heads = json.size("num_attention_heads"),
                               .ff_dim = json.size("intermediate_size"),
                               .epsilon = json.epsilon("rms_norm_eps"),
                               .attention_bias = {.query = false, .key = false, .value = false, .out = false},
                               .feed_forward_bias = false,
                               .gated = true,
                               .norm_order = NormOrder::pre,
                               .normalization = Normalization::rms};
  const auto activation = json.find("hidden_activation");  // as Gemma calls it
  layer.activation = json.activation(activation ? "hidden_activation" : "hidden_act");
  layer.head_dim = json.find("head_dim") ? json.size("head_dim")
                                         : config.model_dim / json.heads("num_attention_heads", "hidden_size");
  layer.kv_heads = json.find("num_key_value_heads") ? json.heads("num_key_value_heads", "num_attention_heads") : 0;
  layer.rotary = read_rotary(json, layer.head_dim, rotary);
  config.positions = readable_positions(json, layer.rotary);
  config.layers.assign(static_cast<std::size_t>(json.layers("num_hidden_layers")), layer);
  return config;
}

LanguageModelConfig read_mistral(const ModelConfig& json, const RotaryDefaults& rotary) {
  LanguageModelConfig config = read_llama(json, rotary);
  add_windows(json, config, [](std::size_t) { return true; });
  return config;
}

}  // namespace qkv::inline models
