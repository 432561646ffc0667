// Phi-3: Mistral, whose projections of one input are one matrix. Source: Abdin et al., "Phi-3 technical
// report" (2024).
#include <fmt/format.h>

#include "models/language/language_kind.h"

namespace qkv::inline models {
namespace {

// A window only where sliding_window is one; transformers reads every scaling of positions but "longrope" as that.
LanguageModelConfig read_phi3(const ModelConfig& json) {
  const RotaryDefaults rotary{.partial = 1};
  LanguageModelConfig config = json.find("sliding_window") ? read_mistral(json, rotary) : read_llama(json, rotary);
  if (config.layers.front().rotary->scaling.kind != RotaryScaling::Kind::none) {
    rotary_parameters(json).refuse("must not scale positions: phi3 knows only \"longrope\", which is not supported");
  }
  return config;
}

void name_phi3(const LanguageModelConfig& config, TensorNames& names) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const TransformerLayerConfig& layer = config.layers[i];
    const std::string at = fmt::format("layers.{}.", i);
    const std::int64_t dim = config.model_dim, ff_dim = layer.ff_dim, query = layer.heads * layer.head_dim;
    const std::int64_t key = (layer.kv_heads == 0 ? layer.heads : layer.kv_heads) * layer.head_dim;
    names.add(at + "self_attn.in_proj_weight", {query + 2 * key, dim}, {at + "self_attn.qkv_proj.weight"});
    names.add(at + "self_attn.out_proj.weight", {dim, query}, {at + "self_attn.o_proj.weight"});
    const std::string both = at + "mlp.gate_up_proj.weight";
    names.add_part(at + "linear1.weight", {ff_dim, dim}, both, {2 * ff_dim, dim}, 0);
    names.add_part(at + "linear3.weight", {ff_dim, dim}, both, {2 * ff_dim, dim}, ff_dim);
    names.add(at + "linear2.weight", {dim, ff_dim}, {at + "mlp.down_proj.weight"});
    names.add(at + "norm1.weight", {dim}, {at + "input_layernorm.weight"});
    names.add(at + "norm2.weight", {dim}, {at + "post_attention_layernorm.weight"});
  }
  names.add("norm.weight", {config.model_dim}, {"norm.weight"});
}

}  // namespace

const LanguageKind kPhi3{.read = read_phi3, .name = name_phi3};

}  // namespace qkv::inline models
