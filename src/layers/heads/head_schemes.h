// The weights of one projection, and from one scheme (multi_head_attention.h) into another.
#pragma once

#include <map>
#include <string>

#include "qkv/layers/multi_head_attention.h"

namespace qkv {

struct HeadWeights {
  TensorView weight{};         // packed: [heads * head_dim, in]; else [heads, head_dim, in or shared_dim]
  TensorView bias{};           // [heads * head_dim] or [heads, head_dim]; may be absent
  TensorView shared_weight{};  // two_stage alone: [shared_dim, in]
  TensorView shared_bias{};    // two_stage alone: [shared_dim]; may be absent
};

// Under the names "weight", "bias", "shared_weight" and "shared_bias", as far as the scheme has them.
using OwnedHeadWeights = std::map<std::string, Tensor>;

// In the packed scheme. A shared stage is multiplied in, in f64, and rounded once:
//   (weight_h shared_weight) x + (weight_h shared_bias + bias_h)
OwnedHeadWeights fold_heads(const HeadWeights& weights);

// Packed weights in any scheme. two_stage: the shared stage is the whole projection, then each head picks its rows.
OwnedHeadWeights unfold_heads(const HeadWeights& packed, HeadScheme scheme, std::int64_t heads);

}  // namespace qkv
