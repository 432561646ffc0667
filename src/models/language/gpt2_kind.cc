// GPT-2: the keys of its config.json and the names of its tensors, whose matrices are the other way round.
// Source: Radford et al., "Language models are unsupervised multitask learners" (2019).
#include <fmt/format.h>

#include <cmath>

#include "models/language/language_kind.h"

namespace qkv::inline models {
namespace {

constexpr std::string_view kGpt2PassedOver[] = {".attn.bias", ".attn.masked_bias"};
constexpr FixedKey kGpt2Fixed[] = {{"add_cross_attention", "false"}, {"tie_word_embeddings", "true"}};

LanguageModelConfig read_gpt2(const ModelConfig& json) {
  json.expect(kGpt2Fixed);
  LanguageModelConfig config{.vocab = json.size("vocab_size"),
                             .positions = json.size("n_positions"),
                             .model_dim = json.size("n_embd"),
                             .learnt_positions = true};
  TransformerLayerConfig layer{.model_dim = config.model_dim,
                               .heads = json.heads("n_head", "n_embd"),
                               .ff_dim = json.find("n_inner") ? json.size("n_inner") : 4 * config.model_dim,
                               .activation = json.activation("activation_function"),
                               .epsilon = json.epsilon("layer_norm_epsilon"),
                               .norm_order = NormOrder::pre};
  const auto head_dim = static_cast<double>(config.model_dim / layer.heads);
  layer.scale = json.flag("scale_attn_weights", true) ? 1 / std::sqrt(head_dim) : 1;
  const bool less_each = json.flag("scale_attn_by_inverse_layer_idx", false);
  for (std::int64_t i = 0; i < json.layers("n_layer"); ++i) {
    config.layers.push_back(layer);
    if (less_each) *config.layers.back().scale /= static_cast<double>(i + 1);
  }
  return config;
}

Tensor transposed(const Tensor& matrix) { return Tensor::copy(matrix.view().transpose(0, 1)); }

void name_gpt2(const LanguageModelConfig& config, TensorNames& names) {
  const std::int64_t dim = config.model_dim;
  const auto name_linear = [&](const std::string& ours, const std::string& theirs, std::int64_t out, std::int64_t in,
                               const char* weight, const char* bias) {
    names.add_formed(ours + weight, {out, in}, theirs + ".weight", {in, out}, transposed);
    names.add(ours + bias, {out}, {theirs + ".bias"});
  };
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const std::string to = fmt::format("layers.{}.", i), from = fmt::format("h.{}.", i);
    const std::int64_t ff_dim = config.layers[i].ff_dim;
    name_linear(to + "self_attn.in_proj", from + "attn.c_attn", 3 * dim, dim, "_weight", "_bias");
    name_linear(to + "self_attn.out_proj", from + "attn.c_proj", dim, dim, ".weight", ".bias");
    name_linear(to + "linear1", from + "mlp.c_fc", ff_dim, dim, ".weight", ".bias");
    name_linear(to + "linear2", from + "mlp.c_proj", dim, ff_dim, ".weight", ".bias");
    names.add_norm(to + "norm1", from + "ln_1", dim);
    names.add_norm(to + "norm2", from + "ln_2", dim);
  }
  names.add_norm("norm", "ln_f", dim);
}

}  // namespace

const LanguageKind kGpt2{.read = read_gpt2,
                         .name = name_gpt2,
                         .prefix = "transformer.",
                         .table = "wte.weight",
                         .positions = "wpe.weight",
                         .passed_over = kGpt2PassedOver};

}  // namespace qkv::inline models
