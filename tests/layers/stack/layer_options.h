// A Transformer layer for every option that it has.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "qkv/layers/transformer_layer.h"

namespace qkv::testing {

// Of 4 heads of 2 unless the option says otherwise.
inline TransformerLayerConfig small_layer(const TransformerLayerConfig& changes) {
  TransformerLayerConfig config = changes;
  config.model_dim = 8;
  config.heads = 4;
  config.ff_dim = 5;
  config.epsilon = 1e-2;
  if (config.activation == Activation::relu) config.activation = Activation::gelu;  // relu has a bend
  return config;
}

inline std::vector<std::pair<std::string, TransformerLayerConfig>> layer_options() {
  std::vector<std::pair<std::string, TransformerLayerConfig>> options{
      {"plain", {}},
      {"kv_heads", {.kv_heads = 2}},
      {"one kv_head of head_dim 3", {.kv_heads = 1, .head_dim = 3}},
      {"bias of queries and values", {.attention_bias = {.key = false, .out = false}}},
      {"bias of keys", {.attention_bias = {.query = false, .value = false}, .feed_forward_bias = false}},
      {"no bias", {.bias = false, .gated = true}},
      {"scale", {.scale = 0.3}},
      {"soft_cap", {.soft_cap = 0.8}},
      {"gelu_tanh", {.activation = Activation::gelu_tanh}},
      {"gated silu", {.activation = Activation::silu, .gated = true}},
      {"gated gelu_tanh", {.activation = Activation::gelu_tanh, .gated = true}},
      {"pre", {.norm_order = NormOrder::pre}},
      {"pre rms", {.norm_order = NormOrder::pre, .normalization = Normalization::rms}},
      {"both", {.norm_order = NormOrder::both}},
      {"both rms", {.norm_order = NormOrder::both, .normalization = Normalization::rms}},
      {"parallel", {.norm_order = NormOrder::parallel}},
      {"window", {.window = AttentionWindow{.left = 1, .right = 0}}},
      {"all",
       {.activation = Activation::gelu_tanh,
        .attention_bias = {.key = false},
        .feed_forward_bias = false,
        .gated = true,
        .norm_order = NormOrder::both,
        .normalization = Normalization::rms,
        .kv_heads = 2,
        .head_dim = 3,
        .scale = 0.7,
        .soft_cap = 1.5,
        .window = AttentionWindow{.left = 2, .right = 0}}}};
  for (auto& [name, config] : options) config = small_layer(config);
  return options;
}

}  // namespace qkv::testing
