// Attention as plain double-precision loops over whole matrices: the specification that tests compare the kernels with.
// Deliberately neither fast nor frugal: it holds weights and logits of q_len x k_len.
#pragma once

#include <vector>

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

// A query of a head of a sequence.
struct RowIndex {
  std::int64_t sequence, head, query;
};

// The outputs of these rows alone, [rows, value_dim], without matrices of q_len x k_len.
Tensor attention_rows(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options,
                      const std::vector<RowIndex>& rows);

}  // namespace qkv::reference
