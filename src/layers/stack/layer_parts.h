// The configs of a layer's parts, and its sites of dropout.
#pragma once

#include <optional>
#include <utility>

#include "layers/basic/rows.h"
#include "qkv/layers/transformer_layer.h"

namespace qkv::inline layers {

// Where one layer has dropout.
enum class DropoutSite : std::uint32_t {
  self_weights,
  self_residual,
  activation,
  feed_forward_residual,
  memory_weights,
  memory_residual,
};

inline Dropout dropout_at(const Dropout& dropout, DropoutSite site) {
  return dropout_at(dropout, static_cast<std::uint32_t>(site));
}

inline MultiHeadAttentionOptions with_dropout(MultiHeadAttentionOptions options, const Dropout& dropout) {
  options.dropout = dropout;
  return options;
}

inline bool is_parallel(NormOrder order) { return order == NormOrder::parallel || order == NormOrder::parallel_norms; }

// A part that the layer or model has if it is `wanted`.
template <class Part, class... Arguments>
std::optional<Part> part_if(bool wanted, Arguments&&... arguments) {
  if (!wanted) return std::nullopt;
  return std::optional<Part>(std::in_place, std::forward<Arguments>(arguments)...);
}

// The same form with other rows.
inline Sequences with_rows(const Sequences& form, const TensorView& rows) {
  Sequences sequences = form;
  sequences.rows = rows;
  return sequences;
}

// Of the attention to the memory; and of self-attention.
inline MultiHeadAttentionConfig attention_config(const TransformerLayerConfig& config) {
  return {.model_dim = config.model_dim,
          .heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .bias = config.bias,
          .projection_bias = config.attention_bias,
          .scale = config.scale,
          .soft_cap = config.soft_cap};
}

inline MultiHeadAttentionConfig self_attention_config(const TransformerLayerConfig& config) {
  MultiHeadAttentionConfig own = attention_config(config);
  own.rotary = config.rotary;
  own.window = config.window;
  own.query_key_norm = config.query_key_norm;
  return own;
}

inline FeedForwardConfig feed_forward_config(const TransformerLayerConfig& config) {
  return {.model_dim = config.model_dim,
          .ff_dim = config.ff_dim,
          .activation = config.activation,
          .bias = config.bias && config.feed_forward_bias,
          .gated = config.gated,
          .activation_dropout = config.activation_dropout};
}

inline LayerNormConfig norm_config(const TransformerLayerConfig& config) {
  return {.dim = config.model_dim,
          .epsilon = config.epsilon,
          .bias = config.bias && config.normalization == Normalization::layer,
          .normalization = config.normalization};
}

}  // namespace qkv::inline layers
