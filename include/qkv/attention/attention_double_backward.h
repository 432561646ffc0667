/// \file
/// Double backward of attention: the gradients of a loss that depends on the gradients of attention, as in penalties on
/// gradients. A loss whose gradients with respect to dq, dk and dv of attention_backward() are tq, tk and tv has the
/// gradients of F = <tq, dq> + <tk, dk> + <tv, dv>, which is <grad_out, the tangent of out along tq, tk, tv>
/// (attention_jvp.h).
///
///     attention_backward(q, k, v, out, lse, grad_out, options, {.query = dq, .key = dk, .value = dv});
///     attention_double_backward(q, k, v, out, lse, grad_out, {.query = tq, .key = tk, .value = tv}, options,
///                               {.query = ddq, .key = ddk, .value = ddv, .grad_out = dd_out});
///
/// With weights P, the tangents S' of the logits, r of log-sum-exp and T of out, and for each pair of a row and a key
///   A = S' - r,  B = grad_out v^T - rowsum(grad_out * out),  C = grad_out tv^T - rowsum(grad_out * T):
///   the gradient of q: scale * (P (C + A B) k + P B tk),    of k: scale * ((P (C + A B))^T q + (P B)^T tq),
///   of v: (P A)^T grad_out,    of grad_out: T.
/// The gradients of q, k and v are also the product of the second derivatives of <grad_out, out> with the tangents.
/// Source: the chain rule; for the blocks Dao et al., "FlashAttention" (2022), once more differentiated.
/// For the options of attention_jvp(). Rows without keys and hidden keys have zero gradients. The same bits for any
/// number of threads, batch or packing. Memory beyond inputs and outputs: O(threads * tile), the size of out and twice
/// the size of log_sum_exp.
#pragma once

#include "qkv/api.h"
#include "qkv/attention/attention_jvp.h"

namespace qkv {

/// Optional outputs, in the shape and type of their inputs; no overlap (attention.h). Overwritten.
struct AttentionSecondGradients {
  MutableTensorView query{};
  MutableTensorView key{};
  MutableTensorView value{};
  MutableTensorView grad_out{};
};

/// `out` and `log_sum_exp` as attention() gave them for these inputs and options; `grad_out` and `tangents` as above.
/// Errors: std::invalid_argument before any work; Stopped.
QKV_API void attention_double_backward(const TensorView& q, const TensorView& k, const TensorView& v,
                                       const TensorView& out, const TensorView& log_sum_exp, const TensorView& grad_out,
                                       const AttentionTangents& tangents, const AttentionOptions& options,
                                       const AttentionSecondGradients& gradients);

}  // namespace qkv
