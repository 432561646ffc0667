// Gemma 2 and Gemma 3 (text): Llama with norms behind the sublayers too, scaled embeddings, windows in most layers and,
// in Gemma 2, caps, in Gemma 3 norms of queries and keys. Sources: "Gemma 2" (2024), "Gemma 3 technical report" (2025).
#include <cmath>

#include "core/mathematics.h"
#include "models/language/language_kind.h"

namespace qkv::inline models {
namespace {

constexpr FixedKey kGemmaFixed[] = {{"use_bidirectional_attention", "false"}};

// `otherwise`: where the key is missing; null: none.
double cap_of(const ModelConfig& json, const char* key, double otherwise) {
  const auto value = json.find(key);
  if (value && !(value->number() > 0)) value->refuse("must be above 0, or null");
  return value ? value->number() : is_null(json, key) ? 0 : otherwise;
}

// Caps of logits where config.json names none.
struct Caps {
  double attention, output;
};

// Layers whose place is not the last of `pattern` have windows.
LanguageModelConfig read_gemma(const ModelConfig& json, std::int64_t pattern, const Caps& caps) {
  json.expect(kGemmaFixed);
  LanguageModelConfig config = read_llama(json);
  config.tied = json.flag("tie_word_embeddings", true);
  config.embedding_scale = std::sqrt(static_cast<double>(config.model_dim));
  config.soft_cap = cap_of(json, "final_logit_softcapping", caps.output);
  const io::JsonValue scalar = json["query_pre_attn_scalar"];
  if (!(scalar.number() > 0)) scalar.refuse("must be above 0");
  const bool bias = json.flag("attention_bias", false);
  for (TransformerLayerConfig& layer : config.layers) {
    layer.norm_order = NormOrder::both;
    layer.attention_bias = {.query = bias, .key = bias, .value = bias, .out = bias};
    layer.scale = 1 / std::sqrt(scalar.number());
    layer.soft_cap = cap_of(json, "attn_logit_softcapping", caps.attention);
  }
  add_windows(json, config, windowed_layers(json, std::ssize(config.layers), [pattern](std::size_t layer) {
                return (static_cast<std::int64_t>(layer) + 1) % pattern != 0;
              }));
  return config;
}

LanguageModelConfig read_gemma2(const ModelConfig& json) {
  return read_gemma(json, 2, {.attention = 50, .output = 30});
}

// Rotary positions differ between layers with and without a window.
LanguageModelConfig read_gemma3(const ModelConfig& json) {
  const auto every = json.find("sliding_window_pattern");
  LanguageModelConfig config = read_gemma(json, every ? every->integer(1, 1 << 20) : 6, {});
  const std::int64_t head_dim = config.layers.front().head_dim;
  const auto both = json.find("rope_parameters");
  const auto local = json.find("rope_local_base_freq"), scaling = json.find("rope_scaling");
  if (both && scaling) scaling->refuse("must be null where there are rope_parameters");
  const RotaryConfig full = both ? read_rotary((*both)["full_attention"], json, head_dim, {.base = 1e6})
                                 : read_rotary(json, head_dim, {.base = 1e6});
  const RotaryDefaults near{.base = local ? local->number() : 1e4};
  const RotaryConfig windowed =
      both ? read_rotary((*both)["sliding_attention"], json, head_dim, near) : RotaryConfig{.base = near.base};
  for (TransformerLayerConfig& layer : config.layers) {
    layer.query_key_norm = layer.epsilon;
    layer.rotary = layer.window ? windowed : full;
  }
  config.positions = readable_positions(json, full);
  return config;
}

}  // namespace

const LanguageKind kGemma2{.read = read_gemma2, .name = name_raised_llama};
const LanguageKind kGemma3{.read = read_gemma3, .name = name_raised_llama};

}  // namespace qkv::inline models
