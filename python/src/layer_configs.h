// Keywords that several layers read.
#pragma once

#include "keywords.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv::python {

// For MultiHeadAttentionConfig and TransformerLayerConfig.
template <class Config>
void read_heads(Keywords& keywords, Config& config) {
  keywords.read("heads", config.heads);
  keywords.read("kv_heads", config.kv_heads);
  keywords.read("head_dim", config.head_dim);
  keywords.read("bias", config.bias);
  keywords.read("scale", config.scale);
  keywords.read("soft_cap", config.soft_cap);
  std::optional<double> base;
  RotaryPairs pairs = RotaryPairs::halves;
  keywords.read("rotary_base", base);
  keywords.read("rotary_pairs", pairs, {{"halves", RotaryPairs::halves}, {"neighbours", RotaryPairs::neighbours}});
  if (base) config.rotary = RotaryConfig{.base = *base, .pairs = pairs};
  std::optional<std::array<std::int64_t, 2>> window;
  keywords.read("window", window);
  if (window) config.window = AttentionWindow{.left = (*window)[0], .right = (*window)[1]};
}

// About the operations of multiplying all rows by matrices of this size.
inline double layer_operations(const Sequences& x, std::int64_t dim) {
  return 24 * static_cast<double>(x.rows.element_count()) * static_cast<double>(dim);
}

}  // namespace qkv::python
