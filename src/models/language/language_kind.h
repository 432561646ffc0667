// Differences between kinds of decoder-only models when their folders become LanguageModels.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/layer_keys.h"
#include "models/model_kinds.h"
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

// The keys that Llama and those after it share: sizes, a pre-norm layer of RMS norms with a gated feed-forward and
// without biases, alike `layers` times, and rotary positions.
LanguageModelConfig read_llama(const ModelConfig& config, const RotaryDefaults& rotary = {});
// The same with a window in each layer.
LanguageModelConfig read_mistral(const ModelConfig& config, const RotaryDefaults& rotary = {});

// Adds to the layers whose place is_windowed() names that a token attends to itself and sliding_window - 1 tokens
// before it: 4,095 if the key is missing, as in transformers; all if it is null.
void add_windows(const ModelConfig& config, LanguageModelConfig& model,
                 const std::function<bool(std::size_t layer)>& is_windowed);
}  // namespace qkv::inline models
