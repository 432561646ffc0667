// Differences between kinds of decoder-only models when their folders become LanguageModels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "models/model_config.h"
#include "models/tensor_names.h"
#include "qkv/models/language_model.h"

namespace qkv::inline models {

// "layers.N." and "norm" as Llama calls them, and what a layer's config has besides: biases, norms of queries and keys,
// norms behind sublayers.
void name_llama(const LanguageModelConfig& config, TensorNames& names);
// The same where the weights of norms are kept without the 1 that they are around.
void name_raised_llama(const LanguageModelConfig& config, TensorNames& names);

// The defaults are Llama's.
struct LanguageKind {
  LanguageModelConfig (*read)(const ModelConfig& config);
  void (*name)(const LanguageModelConfig& config, TensorNames& names) = name_llama;  // the layers and the final norm
  const char* prefix = "model.";                                                     // of all names but the output's
  const char* table = "embed_tokens.weight";                                         // of embeddings
  const char* positions = nullptr;                                                   // the table of learnt positions
  const char* output = "lm_head";
  std::span<const std::string_view> passed_over{};  // ends of the names of what no forward pass needs
};

extern const LanguageKind kGpt2, kGptNeox, kLlama, kMistral, kPhi3, kQwen2, kQwen3, kGemma2, kGemma3;

// The keys that Llama and those after it share: sizes, a pre-norm layer of RMS norms with a gated feed-forward and
// without biases, alike `layers` times, and rotary positions.
LanguageModelConfig read_llama(const ModelConfig& config);
// The same with a window in each layer.
LanguageModelConfig read_mistral(const ModelConfig& config);

// Adds to the layers whose place is_windowed() names that a token attends to itself and `window` - 1 tokens before it.
void add_windows(const ModelConfig& config, std::string_view key, LanguageModelConfig& model,
                 const std::function<bool(std::size_t layer)>& is_windowed);
// The layer's entry of "layer_types", "sliding_attention" or "full_attention"; `otherwise` if the key is missing.
std::function<bool(std::size_t layer)> windowed_layers(const ModelConfig& config, std::int64_t layers,
                                                       const std::function<bool(std::size_t layer)>& otherwise);

// How queries and keys rotate: from "rope_parameters", or "rope_theta" and "rope_scaling", as older files have it.
// Heads have `head_dim` elements, of which the share `partial` rotates unless the file has one.
struct RotaryDefaults {
  double base = 10000;
  double partial = 1;
};
RotaryConfig read_rotary(const ModelConfig& config, std::int64_t head_dim, const RotaryDefaults& defaults = {});
// The same of one of the objects that rope_parameters may hold, one for each type of layers.
RotaryConfig read_rotary(const io::JsonValue& parameters, const ModelConfig& config, std::int64_t head_dim,
                         const RotaryDefaults& defaults);

// The sequence that a model can read: max_position_embeddings; of a dynamic rotary scaling `factor` times as many.
std::int64_t readable_positions(const ModelConfig& config, const std::optional<RotaryConfig>& rotary);

}  // namespace qkv::inline models
