// Lists the tensors of a Marian model with their names here and in its folder.
#include "models/marian_names.h"

#include <fmt/format.h>

namespace qkv::inline models {
namespace {

// A layer's own names, which those of the folder are below the same scope.
void add_attention(TensorNames& names, const std::string& scope, const char* ours, const char* theirs,
                   std::int64_t dim) {
  const std::string from = scope + theirs;
  names.add_attention(scope + ours, {from + ".q_proj", from + ".k_proj", from + ".v_proj"}, from + ".out_proj", dim);
}

void add_feed_forward(TensorNames& names, const std::string& scope, std::int64_t dim, std::int64_t ff_dim) {
  names.add_linear(scope + "linear1", scope + "fc1", ff_dim, dim);
  names.add_linear(scope + "linear2", scope + "fc2", dim, ff_dim);
}

void add_side(TensorNames& names, const std::string& side, const MarianConfig& config) {
  const std::int64_t dim = config.model_dim;
  if (config.target_vocab > 0) {
    const std::int64_t vocab = side == "encoder." ? config.vocab : config.target_vocab;
    names.add(side + kTable + "weight", {vocab, dim}, {side + "embed_tokens.weight"});
  }
  if (config.norm_order == NormOrder::pre) names.add_norm(side + "norm", side + "layer_norm", dim);
  if (config.kind == MarianKind::marian) return;
  if (config.position_kind == MarianPositions::of_kind) {
    names.add(side + kPositions + "weight", {config.positions + kReservedPositions, dim},
              {side + "embed_positions.weight"});
  }
  names.add_norm(side + "embedding_norm", side + "layernorm_embedding", dim);
}

}  // namespace

TensorNames marian_names(const MarianConfig& config, const std::string& prefix) {
  const std::int64_t dim = config.model_dim;
  TensorNames names(prefix, config.normalization);
  if (config.target_vocab == 0) names.add("shared.weight", {config.vocab, dim}, {"shared.weight"});
  for (const char* side : {"encoder.", "decoder."}) add_side(names, side, config);
  for (std::int64_t i = 0; i < config.encoder_layers; ++i) {
    const std::string layer = fmt::format("encoder.layers.{}.", i);
    add_attention(names, layer, "self_attn", "self_attn", dim);
    names.add_norm(layer + "norm1", layer + "self_attn_layer_norm", dim);
    add_feed_forward(names, layer, dim, config.encoder_ff_dim);
    names.add_norm(layer + "norm2", layer + "final_layer_norm", dim);
  }
  for (std::int64_t i = 0; i < config.decoder_layers; ++i) {
    const std::string layer = fmt::format("decoder.layers.{}.", i);
    add_attention(names, layer, "self_attn", "self_attn", dim);
    names.add_norm(layer + "norm1", layer + "self_attn_layer_norm", dim);
    add_attention(names, layer, "multihead_attn", "encoder_attn", dim);
    names.add_norm(layer + "norm2", layer + "encoder_attn_layer_norm", dim);
    add_feed_forward(names, layer, dim, config.decoder_ff_dim);
    names.add_norm(layer + "norm3", layer + "final_layer_norm", dim);
  }
  if (!prefix.empty()) names.add_head(kLogitsBias, {config.output_vocab()}, {1, config.output_vocab()});
  return names;
}

}  // namespace qkv::inline models
