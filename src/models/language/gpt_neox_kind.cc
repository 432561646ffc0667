// GPT-NeoX, of which Pythia is one: a share of each head rotates, and attention and feed-forward stand side by side.
// Source: Black et al., "GPT-NeoX-20B" (2022).
#include <fmt/format.h>

#include "models/language/language_kind.h"

namespace qkv::inline models {
namespace {

constexpr std::string_view kNeoxPassedOver[] = {".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq"};
constexpr FixedKey kNeoxFixed[] = {{"is_decoder", "false"}};

LanguageModelConfig read_gpt_neox(const ModelConfig& json) {
  json.expect(kNeoxFixed);
  LanguageModelConfig config{.vocab = json.size("vocab_size"),
                             .model_dim = json.size("hidden_size"),
                             .tied = json.flag("tie_word_embeddings", false)};
  const bool bias = json.flag("attention_bias", true), parallel = json.flag("use_parallel_residual", true);
  TransformerLayerConfig layer{.model_dim = config.model_dim,
                               .heads = json.heads("num_attention_heads", "hidden_size"),
                               .ff_dim = json.size("intermediate_size"),
                               .activation = json.activation("hidden_act"),
                               .epsilon = json.epsilon("layer_norm_eps"),
                               .attention_bias = {.query = bias, .key = bias, .value = bias, .out = bias},
                               .norm_order = parallel ? NormOrder::parallel_norms : NormOrder::pre};
  layer.head_dim = config.model_dim / layer.heads;
  const auto base = json.find("rotary_emb_base"), share = json.find("rotary_pct");  // as they were called first
  layer.rotary = read_rotary(json, layer.head_dim,
                             {.base = base ? base->number() : 10000, .partial = share ? share->number() : 0.25});
  config.positions = readable_positions(json, layer.rotary);
  config.layers.assign(static_cast<std::size_t>(json.layers("num_hidden_layers")), layer);
  return config;
}

// Theirs has queries, keys and values of each head one below the other.
std::function<Tensor(const Tensor&)> by_role(std::int64_t heads, std::int64_t head_dim) {
  return [heads, head_dim](const Tensor& by_head) {
    const std::int64_t per_row = by_head.element_count() / (heads * 3 * head_dim);
    return Tensor::copy(by_head.view().reshape({heads, 3, head_dim, per_row}).transpose(0, 1));
  };
}

void name_gpt_neox(const LanguageModelConfig& config, TensorNames& names) {
  const std::int64_t dim = config.model_dim;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const TransformerLayerConfig& layer = config.layers[i];
    const std::string at = fmt::format("layers.{}.", i), from = at + "attention.", to = at + "self_attn.";
    const auto turned = by_role(layer.heads, layer.head_dim);
    names.add_formed(to + "in_proj_weight", {3 * dim, dim}, from + "query_key_value.weight", {3 * dim, dim}, turned);
    names.add(to + "out_proj.weight", {dim, dim}, {from + "dense.weight"});
    if (layer.attention_bias.out) {
      names.add_formed(to + "in_proj_bias", {3 * dim}, from + "query_key_value.bias", {3 * dim}, turned);
      names.add(to + "out_proj.bias", {dim}, {from + "dense.bias"});
    }
    names.add_linear(at + "linear1", at + "mlp.dense_h_to_4h", layer.ff_dim, dim);
    names.add_linear(at + "linear2", at + "mlp.dense_4h_to_h", dim, layer.ff_dim);
    names.add_norm(at + "norm1", at + "input_layernorm", dim);
    names.add_norm(at + "norm2", at + "post_attention_layernorm", dim);
  }
  names.add_norm("norm", "final_layer_norm", dim);
}

}  // namespace

const LanguageKind kGptNeox{.read = read_gpt_neox,
                            .name = name_gpt_neox,
                            .prefix = "gpt_neox.",
                            .table = "embed_in.weight",
                            .output = "embed_out",
                            .passed_over = kNeoxPassedOver};

}  // namespace qkv::inline models
