/// \file
/// The plan of a call of attention() or of its derivatives, without running it, by the same code that the call uses.
///
///     AttentionPlan p = plan(q, k, v, {.mask = Mask::causal(), .threads = 8});
///     AttentionPlan b = plan_backward(q, k, v, {.threads = 8}, {.query = dq, .key = dk, .value = dv});
///
/// Views of queries, keys and values, and of optional outputs, need no elements, only types, shapes and strides; the
/// arrays of masks are read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"
#include "qkv/attention/attention_jvp.h"

namespace qkv {

struct AttentionPlan {
  /// "prefill", "decode", "prefill and decode"; "backward", "tangents", "double backward" (tangents, then gradients);
  /// or "none" where there is nothing to do.
  std::string kernel;
  std::string target;                      ///< of CPU instructions
  Precision precision = Precision::exact;  ///< of products with several queries of a sequence
  int threads = 1;                         ///< that have work to do
  std::int64_t workspace = 0;              ///< bytes besides inputs and outputs, as memory_limit counts

  /// Prefill: tiles of up to block_queries x tile_keys pairs; decode: one query and up to chunk_keys keys.
  std::int64_t block_queries = 0, tile_keys = 0, chunk_keys = 0;
  std::int64_t tiles = 0;  ///< of all heads, in both passes of a double backward
  /// Tiles never computed, because no query sees a key in them. Boolean masks count in blocks of 16 queries and 8 keys;
  /// scattered documents, functions, and boolean masks in tangents skip more than counted.
  std::int64_t skipped_tiles = 0;

  double operations = 0;  ///< multiplications and additions of products of rows, in the tiles that are computed
  double bytes = 0;       ///< of inputs and outputs, each once, without masks, biases and optional outputs

  std::vector<std::string> remarks{};  ///< why this is not the fastest possible path, one line each
};

/// std::invalid_argument if the call would throw it.
QKV_API AttentionPlan plan(const TensorView& q, const TensorView& k, const TensorView& v,
                           const AttentionOptions& options = {}, const AttentionExtras& extras = {});

QKV_API AttentionPlan plan_backward(const TensorView& q, const TensorView& k, const TensorView& v,
                                    const AttentionOptions& options, const AttentionGradients& gradients);
QKV_API AttentionPlan plan_jvp(const TensorView& q, const TensorView& k, const TensorView& v,
                               const AttentionTangents& tangents, const AttentionOptions& options,
                               const AttentionOutputTangents& outputs);
QKV_API AttentionPlan plan_double_backward(const TensorView& q, const TensorView& k, const TensorView& v,
                                           const AttentionTangents& tangents, const AttentionOptions& options,
                                           const AttentionSecondGradients& gradients);

}  // namespace qkv
