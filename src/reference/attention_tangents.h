// The forward-mode derivative and the double backward of attention as plain double-precision loops over whole matrices:
// what tests compare the kernels with.
#pragma once

#include "qkv/attention/attention_jvp.h"

namespace qkv::reference {

// All f64, in the forms of AttentionResult.
struct OutputTangents {
  Tensor out, log_sum_exp;
};
struct SecondGradients {
  Tensor query, key, value, grad_out;
};

// The options of qkv::attention_jvp. The forward pass is computed anew.
OutputTangents attention_jvp(const TensorView& q, const TensorView& k, const TensorView& v,
                             const AttentionTangents& tangents, const AttentionOptions& options = {});

// Of the sum of grad_out * attention_jvp(q, k, v, tangents).out.
SecondGradients attention_double_backward(const TensorView& q, const TensorView& k, const TensorView& v,
                                          const TensorView& grad_out, const AttentionTangents& tangents,
                                          const AttentionOptions& options = {});

}  // namespace qkv::reference
