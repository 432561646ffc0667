// Mistral: Llama with a window. Source: Jiang et al., "Mistral 7B" (2023).
#include "models/language_kind.h"

namespace qkv::inline models {
namespace {

LanguageModelConfig read_mistral(const ModelConfig& json) {
  LanguageModelConfig config = read_llama(json);
  add_windows(json, "sliding_window", config, [](std::size_t) { return true; });
  return config;
}

void name_mistral(const LanguageModelConfig& config, TensorNames& names) {
  name_llama(config, names, NormWeights::plain);
}

}  // namespace

const LanguageKind kMistral{
    .read = read_mistral, .name = name_mistral, .prefix = "model.", .table = "embed_tokens.weight"};

}  // namespace qkv::inline models
