// How much each key adds to what leaves a head: attention weight times the length of the value as it leaves W_O,
//   norm(i, j) = w(i, j) ||v_j W_O^h||,   v_j [size], W_O^h [size, out]: the head's rows of the output projection.
// Source: Kobayashi et al., "Attention is not only a weight: analyzing Transformers with vector norms" (2020).
#pragma once

#include <cstdint>

#include "qkv/tensor.h"

namespace qkv::inline explaining {

// ||v_j W_O^h|| of one head: [keys], f64. `value` [keys, kv_heads, size] and `out_weight` [out, heads * size] as the
// layer's observer sees them; a layer without an output projection has no `out_weight`, and the value its own length.
Tensor value_lengths(const TensorView& value, const TensorView& out_weight, std::int64_t heads, std::int64_t head);

// norm(i, j): [queries, keys], f64, of weights of that shape.
Tensor value_norms(const Tensor& weights, const Tensor& lengths);

}  // namespace qkv::inline explaining
