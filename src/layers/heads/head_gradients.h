// Gradients of the projection to heads, for each layout of its weights.
#pragma once

#include "layers/basic/affine.h"
#include "layers/heads/head_schemes.h"

namespace qkv {

// Outputs in the shapes of HeadWeights, which are added to; one that is not given is not wanted.
struct HeadGradients {
  MutableTensorView weight{}, bias{}, shared_weight{}, shared_bias{};
};

// grad_out [n, heads * head_dim]; grad_rows [n, in] is added to, if it is given.
void heads_backward(PackedRows& rows, const HeadWeights& weights, const TensorView& grad_out,
                    const HeadGradients& gradients, const MutableTensorView& grad_rows, int threads);

}  // namespace qkv
