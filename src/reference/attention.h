// Attention, its gradients, its forward-mode derivative and its double backward as plain double-precision loops over
// whole matrices: the specification that tests compare the kernels with. Deliberately neither fast nor frugal: it holds
// weights and logits of q_len x k_len.
#pragma once

#include <vector>

#include "qkv/attention.h"
#include "qkv/attention/attention_jvp.h"
#include "reference/scorer.h"

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
