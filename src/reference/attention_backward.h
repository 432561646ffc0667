// Gradients of attention as plain double-precision loops over whole matrices: what tests compare the kernels with.
#pragma once

#include <vector>

#include "qkv/attention.h"

namespace qkv::reference {

// All f64, in the forms of AttentionResult.
struct AttentionGradients {
  Tensor query;
  Tensor key;
  Tensor value;
  std::vector<Tensor> tables, alibi_slopes;  // in the order of the options' bias
  Tensor sinks;                              // [heads]; none: not made
};

// Of the sum of grad_out * attention(q, k, v), for dot and scaled-dot scores. The forward pass is computed anew.
AttentionGradients attention_backward(const TensorView& q, const TensorView& k, const TensorView& v,
                                      const TensorView& grad_out, const AttentionOptions& options = {});

}  // namespace qkv::reference
