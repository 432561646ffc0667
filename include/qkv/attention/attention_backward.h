/// \file
/// Gradients of attention, recomputed tile by tile from the forward pass's outputs: no matrix of q_len x k_len.
///
///     attention(q, k, v, out, options, {.log_sum_exp = lse});
///     attention_backward(q, k, v, out, lse, grad_out, options, {.query = dq, .key = dk, .value = dv});
///
/// With weights P = softmax(logits), dP = grad_out v^T and dS = P * (dP - rowsum(grad_out * out)):
///   dq = scale * dS k, dk = scale * dS^T q, dv = P^T grad_out;
/// the gradient of a bias view is dS, summed over the dimensions that it broadcasts along, the gradient of a table
/// entry is the sum of dS over its pairs, of a slope the sum of -dS |p - j|, of a sink the sum of -P of the sink times
/// grad_out . out. With dropout, which multiplies weights by Z: dP = Z * (grad_out v^T), dv = (Z * P)^T grad_out.
/// Source: Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness" (2022).
/// rowsum(grad_out * out) has the error of `out`: of an `out` in bf16 or f16 the rounding shows in dq and dk (of a
/// query that sees one key, where both are 0, dk was 0.19 with bf16 and 1e-5 with f32). If that matters, let
/// attention() write `out` in f32 for 16-bit inputs, and give grad_out in f32. Rows without keys and hidden keys have
/// zero gradients. The same bits for any number of threads, batch, packing, and padding on the right. Memory beyond
/// inputs and outputs: 0.5 MiB + 6 KiB (head_dim + value_dim) a thread (docs/semantics.md), and q once in f32 for bf16
/// and f16; for scores with parameters also copies of inputs and projections in f32 (f64 for f64).
#pragma once

#include <vector>

#include "qkv/api.h"
#include "qkv/attention.h"

namespace qkv {

/// The parameters of a score (score.h), in their shapes and type. Not given if the score has none.
struct ScoreGradients {
  MutableTensorView w_query{};  ///< additive; concat and bilinear: w
  MutableTensorView w_key{};    ///< additive
  MutableTensorView v{};        ///< additive, concat
};

/// Optional outputs: pass a view to receive one. Overwritten, not added to. No overlap with inputs, as in attention.h.
struct AttentionGradients {
  MutableTensorView query{};  ///< shapes of q, k and v; the type of q or of the accumulation
  MutableTensorView key{};
  MutableTensorView value{};
  std::vector<MutableTensorView> bias{};  ///< one for each view of the bias, in its shape and type, or an empty view
  ScoreGradients score{};
  /// Gradients of parameters of bias and sinks: f32 or f64 in the parameter's shape, summed over broadcast dimensions;
  /// in the order of options.bias.tables() and alibi_slopes(), trailing ones may be omitted. f64 for f64 inputs.
  std::vector<MutableTensorView> tables{};
  std::vector<MutableTensorView> alibi_slopes{};
  MutableTensorView sinks{};
};

/// `out` and `log_sum_exp` as attention() gave them for these inputs and options; `grad_out` like out.
/// Errors: std::invalid_argument before any work; Stopped.
QKV_API void attention_backward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
                                const TensorView& log_sum_exp, const TensorView& grad_out,
                                const AttentionOptions& options, const AttentionGradients& gradients);

}  // namespace qkv
