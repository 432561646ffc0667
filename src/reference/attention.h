// Attention as plain double-precision loops over whole matrices: the specification that tests compare the kernels with.
// Deliberately neither fast nor frugal: it holds weights and logits of q_len x k_len.
#pragma once

#include "qkv/attention.h"

namespace qkv::reference {

// All f64. Padded form: out [batch, heads, q_len, value_dim], log_sum_exp [batch, heads, q_len], weights and logits
// [batch, heads, q_len, k_len]. Packed form: out [query tokens, heads, value_dim], log_sum_exp [query tokens, heads],
// weights and logits [query tokens, heads, longest key sequence].
struct AttentionResult {
  Tensor out;
  Tensor log_sum_exp;
  Tensor weights;
  Tensor logits;
};

// The options and forms of qkv::attention; inputs of any floating type, bias and parameters f32 or f64.
AttentionResult attention(const TensorView& q, const TensorView& k, const TensorView& v,
                          const AttentionOptions& options = {});

}  // namespace qkv::reference
