// Gradients of attention, recomputed tile by tile from what the forward pass kept: no matrix of q_len x k_len.
//
//   attention(q, k, v, out, options, {.log_sum_exp = lse});
//   attention_backward(q, k, v, out, lse, grad_out, options, {.query = dq, .key = dk, .value = dv});
//
// With weights P = softmax(logits), dP = grad_out v^T and dS = P * (dP - rowsum(grad_out * out)):
//   dq = scale * dS k, dk = scale * dS^T q, dv = P^T grad_out;
// a number of a table receives the sum of dS over its pairs, a slope that of -dS |p - j|, a sink that of -P of the sink
// times grad_out . out.
// Source: Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness" (2022).
// Rows without keys and hidden keys have zero gradients. The same bits for any number of threads, batch or packing.
// Memory beyond inputs and outputs: O(threads * tile), and the size of q once in f32 for bf16 and f16.
#pragma once

#include <vector>

#include "qkv/attention.h"

namespace qkv {

// A place given is a wish. Shapes of q, k and v; the type of q or of the accumulation. Overwritten, not added to.
struct AttentionGradients {
  MutableTensorView query{};
  MutableTensorView key{};
  MutableTensorView value{};
  // Of the parameters of bias and sinks: f32 or f64 of the parameter's shape, summed over all that it was broadcast to;
  // in the order of options.bias.tables() and alibi_slopes(), those at the end may be missing. f64 for f64 inputs.
  std::vector<MutableTensorView> tables{};
  std::vector<MutableTensorView> alibi_slopes{};
  MutableTensorView sinks{};
};

// `out` and `log_sum_exp` as attention() gave them for these inputs and options; `grad_out` like out.
// Errors: std::invalid_argument before any work; Stopped.
void attention_backward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
                        const TensorView& log_sum_exp, const TensorView& grad_out, const AttentionOptions& options,
                        const AttentionGradients& gradients);

}  // namespace qkv
