// What encoder and decoder layers share.
#pragma once

#include "layers/basic/layer_dropout.h"
#include "qkv/layers/encoder_layer.h"

namespace qkv {

// The places of one layer with dropout.
enum class DropoutSite : std::uint32_t {
  self_weights,
  self_residual,
  activation,
  feed_forward_residual,
  memory_weights,
  memory_residual,
};

inline Dropout dropout_at(const Dropout& dropout, DropoutSite place) {
  return dropout_at(dropout, static_cast<std::uint32_t>(place));
}

inline MultiHeadAttentionOptions with_dropout(MultiHeadAttentionOptions options, const Dropout& dropout) {
  options.dropout = dropout;
  return options;
}

// The same form with other rows.
inline Sequences with_rows(const Sequences& form, const TensorView& rows) {
  Sequences sequences = form;
  sequences.rows = rows;
  return sequences;
}

// Of the attention to the memory; and of self-attention.
inline MultiHeadAttentionConfig attention_config(const TransformerLayerConfig& config) {
  return {.model_dim = config.model_dim, .heads = config.heads, .bias = config.bias};
}

inline MultiHeadAttentionConfig self_attention_config(const TransformerLayerConfig& config) {
  MultiHeadAttentionConfig own = attention_config(config);
  own.rotary = config.rotary;
  return own;
}

inline FeedForwardConfig feed_forward_config(const TransformerLayerConfig& config) {
  return {.model_dim = config.model_dim, .ff_dim = config.ff_dim, .activation = config.activation, .bias = config.bias};
}

inline LayerNormConfig norm_config(const TransformerLayerConfig& config) {
  return {.dim = config.model_dim,
          .epsilon = config.epsilon,
          .bias = config.bias && config.normalization == Normalization::layer,
          .normalization = config.normalization};
}

}  // namespace qkv
