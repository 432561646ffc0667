// Keywords that several layers read.
#pragma once

#include "keywords.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv::python {

// For MultiHeadAttentionConfig and TransformerLayerConfig.
template <class Config>
void read_heads(Keywords& keywords, Config& config) {
  std::optional<double> base;
  std::optional<std::array<std::int64_t, 2>> window;
  keywords.read("heads", config.heads, "kv_heads", config.kv_heads, "head_dim", config.head_dim, "bias", config.bias,
                "scale", config.scale, "soft_cap", config.soft_cap, "rotary_base", base, "window", window);
  RotaryPairs pairs = RotaryPairs::halves;
  keywords.read("rotary_pairs", pairs, {{"halves", RotaryPairs::halves}, {"neighbours", RotaryPairs::neighbours}});
  if (base) config.rotary = RotaryConfig{.base = *base, .pairs = pairs};
  if (window) config.window = AttentionWindow{.left = (*window)[0], .right = (*window)[1]};
}

// About the operations of multiplying all rows by matrices of this size.
inline double layer_operations(const Sequences& x, std::int64_t dim) {
  return 24 * static_cast<double>(x.rows.element_count()) * static_cast<double>(dim);
}

}  // namespace qkv::python
