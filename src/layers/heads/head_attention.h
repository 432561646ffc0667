// The attention inside multi-head attention: from projected rows to merged heads.
#pragma once

#include "qkv/attention/precision.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv {

struct HeadAttention {
  // Projected rows [n, heads * head_dim] (of keys and values kv_heads * head_dim), a stride apart, and the inputs whose
  // form (padded or ragged) they have.
  struct Rows {
    TensorView projected;
    Sequences form;
  };
  const MultiHeadAttentionConfig& config;
  Rows query, key, value;
  TensorView extra_key, extra_value;  // [extra keys, kv_heads, head_dim]: seen by every query, whatever the mask
  Precision precision = Precision::exact;
};

// merged [n, heads * head_dim], rows a stride apart: the heads' outputs side by side. `log_sum_exp` over all keys, as
// attention() gives it, if an output is given. merged may be the projected queries themselves, where there are no extra
// keys and nothing else is wanted.
void attend_heads(const HeadAttention& attention, const MutableTensorView& merged, const MutableTensorView& log_sum_exp,
                  const MultiHeadAttentionOptions& options, Observer* observer);

// What the backward pass takes from attend_heads, and the gradient of its result.
struct HeadAttentionOutcome {
  TensorView merged, log_sum_exp, grad_merged;
};

// Of the projected rows, the extra keys and the table of the bias, if it is asked for, in their shapes. Overwritten.
struct HeadAttentionGradients {
  Tensor query, key, value, extra_key, extra_value, table;
};

HeadAttentionGradients attend_heads_backward(const HeadAttention& attention, const HeadAttentionOutcome& outcome,
                                             const MultiHeadAttentionOptions& options);

}  // namespace qkv
