/// \file
/// Exact attention: dropout(softmax(mask(cap(scale * score(q, k)) + bias))) v, in one fused pass.
///
///     Tensor out = attention(q, k, v);                                        // scale 1/sqrt(head_dim)
///     attention(q, k, v, out, {.mask = Mask::causal(), .soft_cap = 30.0}, {.log_sum_exp = lse});
///
/// Padded form: q [..., heads, q_len, head_dim], k [..., kv_heads, k_len, head_dim], v [..., kv_heads, k_len,
/// value_dim], out [..., heads, q_len, value_dim]. All dimensions before the heads form the batch; [length, size] and
/// [heads, length, size] are fine. Query head h uses key/value head h / (heads / kv_heads).
/// Packed form (both offsets given): q [query tokens, heads, head_dim], k [key tokens, kv_heads, head_dim], v and out
/// alike; sequence b owns the rows offsets[b] <= row < offsets[b + 1].
/// Paged keys (block_table given; queries padded, or packed without offsets_key): k [pages, rows, kv_heads, head_dim],
/// v alike; key j of sequence b is row j % rows of page block_table[b, j / rows]. Mask::lengths says how many keys each
/// sequence has; without it all its blocks are full. Pages are read in place. k_len is the length of the longest
/// sequence. Types: f32, f64, bf16 or f16, the same for q, k and v, out of the same type or f32; accumulation in f32
/// (f64 for f64). Strides are free but the last, which must be 1. head_dim and value_dim: 1 to 1024. Memory beyond
/// inputs and outputs: under 1 MiB a thread, more for large groups of single queries, and compiled masks and tables,
/// which plan() counts (docs/semantics.md). Errors: std::invalid_argument before any work; Stopped on a stop request.
/// Outputs share no element with an input or each other; slices of one array may interleave.
#pragma once

#include <optional>
#include <stop_token>

#include "qkv/api.h"
#include "qkv/attention/attention_function.h"
#include "qkv/attention/bias.h"
#include "qkv/attention/dropout.h"
#include "qkv/attention/empty_rows.h"
#include "qkv/attention/mask.h"
#include "qkv/attention/precision.h"
#include "qkv/attention/score.h"
#include "qkv/tensor.h"

namespace qkv {

struct AttentionOptions {
  Mask mask{};                     ///< everything visible
  Bias bias{};                     ///< nothing added
  std::optional<double> scale{};   ///< unset: the default of the score; any finite number
  double soft_cap = 0;             ///< cap * tanh(logits / cap), before bias and mask; 0: off
  LogitFunction logit_function{};  ///< a user's own, after bias and before the mask
  Score score = Score::scaled_dot();
  Precision precision = Precision::exact;  ///< reduced: products in bf16 where this CPU has them, see precision.h
  Dropout dropout{};                       ///< off; optional outputs are of the weights before dropout
  EmptyRows empty_rows = EmptyRows::zero;  ///< output and weights of a query that sees no key; nan: as in torch
  TensorView sinks{};  ///< f32 or f64 [heads]: each head's logit of an extra key without a value; -infinity: none
  TensorView offsets_query{};  ///< i32 or i64 [batch + 1], starts at 0, never decreases: packed form
  TensorView offsets_key{};
  TensorView block_table{};       ///< i32 [batch, blocks]: paged keys; entries that no key needs may hold anything
  int threads = 0;                ///< 0: threads()
  std::int64_t memory_limit = 0;  ///< bytes besides inputs and outputs; 0: none. Limits the threads, or the call fails
  std::stop_token stop{};         ///< polled per tile
};

/// Optional outputs: pass a view to receive one; what you omit costs nothing. All f32 (f64 for f64).
/// Shapes are given for the padded form; the packed form has [query tokens, heads] for [..., heads, q_len], and rows of
/// weights and logits are as long as the longest key sequence, 0 (logits: -infinity) beyond their own.
struct AttentionExtras {
  MutableTensorView log_sum_exp{};  ///< [..., heads, q_len]; natural logarithm; without keys: -infinity, or the sink
  MutableTensorView
      weights{};  ///< [..., heads, q_len, k_len]; softmax of the logits; rows sum to 1 (less: sinks) or are 0
  MutableTensorView logits{};       ///< [..., heads, q_len, k_len]; input of softmax; -infinity where masked
  TensorView rows{};                ///< i64 [n, 3]: (batch, head, query) of chosen rows; packed: query in its sequence
  MutableTensorView row_weights{};  ///< [n, k_len]; the weights of `rows`

  /// Statistics of the weights, exact; entropy and sums from a second pass over the keys that are not masked.
  MutableTensorView row_maximum{};  ///< [..., heads, q_len]; the largest logit; -infinity for a row without keys
  MutableTensorView entropy{};      ///< [..., heads, q_len]; in nats; a sink's weight counts as one more
  /// A query's weight on the key at its own position p (mask.h), and on the one before; 0 where there is none.
  /// Identifies copying and previous-token heads (Elhage et al., 2021).
  MutableTensorView self_weight{}, previous_weight{};  ///< [..., heads, q_len]
  MutableTensorView
      top_keys{};  ///< i64 [..., heads, q_len, n]; keys of the n largest weights, in decreasing order; -1 pads
  MutableTensorView top_weights{};  ///< [..., heads, q_len, n]; goes with top_keys; equal weights: lower key first
  MutableTensorView received{};  ///< [..., heads, k_len], packed [key tokens, heads]; a key's weights, over all queries
  MutableTensorView
      block_weights{};  ///< [..., heads, r, c], packed [batch, heads, r, c]; averages over r x c equal parts
};

QKV_API void attention(const TensorView& q, const TensorView& k, const TensorView& v, const MutableTensorView& out,
                       const AttentionOptions& options = {}, const AttentionExtras& extras = {});

/// The same into a new tensor of q's type.
QKV_API Tensor attention(const TensorView& q, const TensorView& k, const TensorView& v,
                         const AttentionOptions& options = {}, const AttentionExtras& extras = {});

/// Joins two results over disjoint keys into `out` and `log_sum_exp` (in place of the first): the result of attending
/// to all keys at once, up to rounding. out, other_out: [..., q_len, value_dim] f32 or f64; log_sum_exp alike without
/// the last.
///   m = max(lse, other_lse); out = (e^(lse - m) out + e^(other_lse - m) other_out) / (e^(lse - m) + e^(other_lse -
///   m)).
/// A part with log-sum-exp -infinity adds nothing. Sinks belong to one of the parts alone.
QKV_API void merge_attention(const MutableTensorView& out, const MutableTensorView& log_sum_exp,
                             const TensorView& other_out, const TensorView& other_log_sum_exp);

}  // namespace qkv
