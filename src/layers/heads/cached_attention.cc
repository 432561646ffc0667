// Multi-head attention against keys and values that were projected before, as in each step of generating.
#include <algorithm>

#include "core/refuse.h"
#include "layers/basic/rows.h"
#include "layers/heads/head_operands.h"
#include "qkv/attention/key_value_cache.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv {
namespace {

std::vector<std::int64_t> cached_lengths(const KeyValueCache& cache) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < cache.batch(); ++b) lengths.push_back(cache.length(b));
  return lengths;
}

}  // namespace

KeyValueCache MultiHeadAttention::make_cache(std::int64_t batch) const {
  if (extra_key_.element_count() > 0) {
    refuse("multi_head_attention", "bias_kv and zero_attention are not supported with a cache");
  }
  return KeyValueCache(
      {.batch = batch, .kv_heads = config_.kv_heads, .head_dim = config_.head_dim, .dtype = extra_key_.dtype()});
}

void MultiHeadAttention::append(const Sequences& memory, KeyValueCache& cache, int threads) const {
  const auto rows_of = [&](const char* name, int role, std::int64_t dim) {
    const LayerRows rows(name, memory.rows, dim);
    return project(role, rows.view(), threads);
  };
  Tensor key = rows_of("multi_head_attention: key", 1, config_.key_input_dim);
  if (config_.rotary) rotate(memory, config_.kv_heads, key, 1, threads, cached_lengths(cache));
  const Tensor value = rows_of("multi_head_attention: value", 2, config_.value_input_dim);
  const TensorView keys = split_heads(key.view(), memory, config_.kv_heads);
  const TensorView values = split_heads(value.view(), memory, config_.kv_heads);
  memory.ragged() ? cache.append(keys, values, memory.offsets) : cache.append(keys, values);
}

Tensor MultiHeadAttention::forward(const Sequences& query, const KeyValueCache& cache,
                                   const MultiHeadAttentionOptions& options) const {
  if (options.weights || options.mean_weights) {
    refuse("multi_head_attention", "a cache gives no weights; call forward with the memory");
  }
  const LayerRows rows("multi_head_attention: query", query.rows, config_.model_dim);
  Tensor projected = project(0, rows.view(), options.threads);
  if (config_.rotary) {
    std::vector<std::int64_t> starts = cached_lengths(cache);
    const std::vector<std::int64_t> lengths = sequence_lengths(query);
    for (std::size_t b = 0; b < std::min(starts.size(), lengths.size()); ++b) starts[b] -= lengths[b];
    rotate(query, config_.heads, projected, 1, options.threads, starts);
  }
  Tensor merged = Tensor::uninitialized(projected.shape(), projected.dtype());
  attention(split_heads(projected.view(), query, config_.heads), cache,
            split_heads(merged.view(), query, config_.heads),
            {.mask = mask_of(options),
             .bias = options.bias,
             .scale = config_.scale,
             .soft_cap = config_.soft_cap,
             .empty_rows = options.empty_rows,
             .offsets_query = query.offsets,
             .threads = options.threads,
             .stop = options.stop});
  Tensor out = Tensor::uninitialized(with_last(query.rows.shape(), config_.out_dim), merged.dtype());
  out_.forward(merged, out.view().reshape({merged.size(0), config_.out_dim}), options.threads);
  return out;
}

}  // namespace qkv
