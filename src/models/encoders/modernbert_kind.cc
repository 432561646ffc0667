// ModernBERT: pre-norm layers without biases, gated feed-forward, rotary positions, windows in all but every third
// layer. Source: Warner et al., "Smarter, better, faster, longer" (2024).
#include <fmt/format.h>

#include "models/encoders/encoder_kind.h"
#include "models/layer_keys.h"

namespace qkv::inline models {
namespace {

constexpr FixedKey kModernFixed[] = {{"norm_bias", "false"},   {"attention_bias", "false"},
                                     {"mlp_bias", "false"},    {"classifier_bias", "false"},
                                     {"decoder_bias", "true"}, {"classifier_activation", "\"gelu\""},
                                     {"rope_scaling", "null"}};
constexpr HeadNames modern_head(TextTask task, const char* out, const char* out_bias, const char* pooling = nullptr) {
  return {task, out, out_bias, "head.dense", HeadActivation::gelu, "head.norm", false, false, pooling};
}
constexpr HeadNames kModernHeads[] = {
    modern_head(TextTask::masked_word, "decoder", "decoder.bias"),
    modern_head(TextTask::sequence_class, "classifier", nullptr, "classifier_pooling"),
    modern_head(TextTask::token_class, "classifier", nullptr), modern_head(TextTask::answer, "classifier", nullptr)};
constexpr std::string_view kModernPassedOver[] = {"head.", "decoder."};

TextEncoderConfig read_modernbert(const ModelConfig& json) {
  json.expect(kModernFixed);
  TextEncoderConfig config = read_sizes(json, {.activation = "hidden_activation", .epsilon = "norm_eps"});
  config.learnt_positions = false;
  const std::int64_t head_dim = config.model_dim / config.heads;
  const auto every = json.find("global_attn_every_n_layers");
  const std::int64_t pattern = every ? every->integer(1, 1 << 20) : 3;
  const auto is_windowed = windowed_layers(
      json, config.layers, [pattern](std::size_t layer) { return static_cast<std::int64_t>(layer) % pattern != 0; });
  const std::int64_t side = json["local_attention"].integer(1, 1 << 30) / 2;
  const auto rotary = [&](const char* type, const char* of_old, double base) {
    const auto old = json.find(of_old), all = json.find("rope_parameters");
    const RotaryConfig plain{.base = old ? old->number() : base};
    return all && all->find(type) ? read_rotary((*all)[type], json, head_dim, {.base = plain.base}) : plain;
  };
  const RotaryConfig near = rotary("sliding_attention", "local_rope_theta", 1e4),
                     full = rotary("full_attention", "global_rope_theta", 16e4);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    TransformerLayerConfig layer = config.layer();
    layer.bias = false, layer.gated = true, layer.norm_order = NormOrder::pre, layer.attention_norm = i > 0;
    if (is_windowed(static_cast<std::size_t>(i))) layer.window = AttentionWindow{side, side};
    layer.rotary = layer.window ? near : full;
    config.each.push_back(layer);
  }
  return config;
}

void name_modernbert(const TextEncoderConfig& config, TensorNames& names) {
  const std::int64_t dim = config.model_dim, ff = config.ff_dim;
  const auto add = [&](const std::string& ours, const Dims& shape, const std::string& theirs) {
    names.add(ours + "weight", shape, {theirs + ".weight"});
  };
  add("embeddings.word.", {config.vocab, dim}, "embeddings.tok_embeddings");
  add("embeddings.norm.", {dim}, "embeddings.norm");
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string at = fmt::format("layers.{}.", i);
    if (i > 0) add(at + "norm1.", {dim}, at + "attn_norm");
    add(at + "self_attn.in_proj_", {3 * dim, dim}, at + "attn.Wqkv");
    add(at + "self_attn.out_proj.", {dim, dim}, at + "attn.Wo");
    add(at + "norm2.", {dim}, at + "mlp_norm");
    names.add_part(at + "linear1.weight", {ff, dim}, at + "mlp.Wi.weight", {2 * ff, dim}, 0);
    names.add_part(at + "linear3.weight", {ff, dim}, at + "mlp.Wi.weight", {2 * ff, dim}, ff);
    add(at + "linear2.", {dim, ff}, at + "mlp.Wo");
  }
  add("norm.", {dim}, "final_norm");
}

}  // namespace

const EncoderKind kModernBert{.read = read_modernbert,
                              .name = name_modernbert,
                              .prefix = "model.",
                              .passed_over = kModernPassedOver,
                              .heads = kModernHeads,
                              .table = "embeddings.tok_embeddings.weight"};

}  // namespace qkv::inline models
