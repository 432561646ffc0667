// The names of Llama's tensors and of those after it, and the windows of their layers.
#include <fmt/format.h>

#include "layers/basic/layer_checks.h"
#include "models/language/language_kind.h"

namespace qkv::inline models {
namespace {

Tensor plus_one(const Tensor& weight) {
  Tensor raised = weight;
  for (std::int64_t i = 0; i < raised.element_count(); ++i) raised.data<float>()[i] += 1;
  return raised;
}

void name_attention(const TransformerLayerConfig& layer, const std::string& to, const std::string& from,
                    TensorNames& names) {
  const std::int64_t query = layer.heads * layer.head_dim;
  const std::int64_t key = (layer.kv_heads == 0 ? layer.heads : layer.kv_heads) * layer.head_dim;
  names.add_rows(to + "in_proj_weight", {query + 2 * key, layer.model_dim},
                 {{from + "q_proj.weight", query}, {from + "k_proj.weight", key}, {from + "v_proj.weight", key}});
  if (layer.attention_bias.query) {
    names.add_rows(to + "in_proj_bias", {query + 2 * key},
                   {{from + "q_proj.bias", query}, {from + "k_proj.bias", key}, {from + "v_proj.bias", key}});
  }
  names.add(to + "out_proj.weight", {layer.model_dim, query}, {from + "o_proj.weight"});
  if (layer.attention_bias.out) names.add(to + "out_proj.bias", {layer.model_dim}, {from + "o_proj.bias"});
}

void name_all(const LanguageModelConfig& config, TensorNames& names,
              const std::function<Tensor(const Tensor&)>& norm_formed = {}) {
  const auto name_norm = [&](const std::string& ours, const std::string& theirs, std::int64_t dim) {
    names.add_formed(ours + ".weight", {dim}, theirs + ".weight", {dim}, norm_formed);
  };
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const TransformerLayerConfig& layer = config.layers[i];
    const std::string at = fmt::format("layers.{}.", i);
    const std::int64_t dim = layer.model_dim;
    name_attention(layer, at + "self_attn.", at + "self_attn.", names);
    if (layer.query_key_norm) {
      name_norm(at + "self_attn.q_norm", at + "self_attn.q_norm", layer.head_dim);
      name_norm(at + "self_attn.k_norm", at + "self_attn.k_norm", layer.head_dim);
    }
    const auto name_part = [&](const char* ours, const char* theirs, std::int64_t out, std::int64_t in) {
      names.add(at + ours + ".weight", {out, in}, {at + "mlp." + theirs + ".weight"});
      if (layer.feed_forward_bias) names.add(at + ours + ".bias", {out}, {at + "mlp." + theirs + ".bias"});
    };
    name_part("linear1", "gate_proj", layer.ff_dim, dim);
    name_part("linear2", "down_proj", dim, layer.ff_dim);
    name_part("linear3", "up_proj", layer.ff_dim, dim);
    const bool both = layer.norm_order == NormOrder::both;
    name_norm(at + "norm1", at + "input_layernorm", dim);
    name_norm(at + "norm2", at + (both ? "pre_feedforward_layernorm" : "post_attention_layernorm"), dim);
    if (!both) continue;
    name_norm(at + "norm1.after", at + "post_attention_layernorm", dim);
    name_norm(at + "norm2.after", at + "post_feedforward_layernorm", dim);
  }
  name_norm("norm", "norm", config.model_dim);
}

}  // namespace

void name_llama(const LanguageModelConfig& config, TensorNames& names) { name_all(config, names); }
void name_raised_llama(const LanguageModelConfig& config, TensorNames& names) { name_all(config, names, plus_one); }

void add_windows(const ModelConfig& json, LanguageModelConfig& config,
                 const std::function<bool(std::size_t layer)>& is_windowed) {
  const auto size = json.find("sliding_window");
  if (!size && is_null(json, "sliding_window")) return;
  const AttentionWindow window{.left = (size ? size->integer(1, std::int64_t{1} << 31) : 4096) - 1};
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (is_windowed(i)) config.layers[i].window = window;
  }
}

}  // namespace qkv::inline models
