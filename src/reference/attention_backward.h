// Gradients of attention as plain double-precision loops over whole matrices: what tests compare the kernels with.
#pragma once

#include <vector>

#include "qkv/attention.h"
#include "reference/scorer.h"

namespace qkv::reference {

// All f64, in the forms of AttentionResult; of bias views in their shapes.
struct AttentionGradients {
  Tensor query;
  Tensor key;
  Tensor value;
  std::vector<Tensor> bias{};  // in the order of the options' bias, as the next two
  std::vector<Tensor> tables{}, alibi_slopes{};
  Tensor sinks{};  // [heads]; none: not made
  ScoreGradients score{};
};

// Of the sum of grad_out * attention(q, k, v). The forward pass is computed anew.
AttentionGradients attention_backward(const TensorView& q, const TensorView& k, const TensorView& v,
                                      const TensorView& grad_out, const AttentionOptions& options = {});

}  // namespace qkv::reference
