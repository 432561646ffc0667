/// \file
/// Forward-mode derivative of attention (Jacobian-vector product): how the output moves when q, k and v move along
/// tangents.
///
///     attention(q, k, v, out, options, {.log_sum_exp = lse});
///     attention_jvp(q, k, v, out, lse, {.query = tq, .key = tk, .value = tv}, options, {.out = tangent});
///
/// With weights P = softmax(logits) and the tangent S' = scale * (tq k^T + q tk^T) of the logits, row i of the
/// tangents:
///   of log-sum-exp: r_i = sum_j P_ij S'_ij;    of out: sum_j P_ij (S'_ij v_j + tv_j) - r_i out_i.
/// Source: the product rule, as in Griewank and Walther, "Evaluating derivatives" (2008), chapter 3.
/// For f32 and f64, the dot and scaled dot score, every mask, bias and sink (held constant), grouped heads, padded
/// or packed; no soft cap, dropout, logit function, Shaw's table or pages. Rows without keys have tangents 0. The same
/// bits for any number of threads, batch or packing. Memory beyond inputs and outputs: O(threads * tile).
#pragma once

#include "qkv/api.h"
#include "qkv/attention.h"

namespace qkv {

/// In the shapes and the type of q, k and v; one that is not given is 0.
struct AttentionTangents {
  TensorView query{};
  TensorView key{};
  TensorView value{};
};

/// Optional outputs: the tangents of out and log_sum_exp, in their shapes and type; no overlap, as in attention.h.
struct AttentionOutputTangents {
  MutableTensorView out{};
  MutableTensorView log_sum_exp{};
};

/// `out` and `log_sum_exp` as attention() gave them for these inputs and options.
/// Errors: std::invalid_argument before any work; Stopped.
QKV_API void attention_jvp(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
                           const TensorView& log_sum_exp, const AttentionTangents& tangents,
                           const AttentionOptions& options, const AttentionOutputTangents& outputs);

}  // namespace qkv
