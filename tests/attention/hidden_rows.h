// Which queries see no key, and which keys no query sees: whatever they hold must not show.
#pragma once

#include <optional>

#include "attention/attention_testing.h"
#include "reference/attention.h"
#include "reference/batch.h"

namespace qkv::testing {

class HiddenRows {
 public:
  HiddenRows() = default;
  // Of arrays of at least one query and one key, not in pages, by the masks alone.
  HiddenRows(const TensorView& q, const TensorView& k, const AttentionOptions& options)
      : batch_(std::in_place, q, k, options), packed_(options.offsets_query) {
    AttentionOptions mask_alone{.mask = options.mask, .scale = 0};
    mask_alone.offsets_query = options.offsets_query, mask_alone.offsets_key = options.offsets_key;
    const Tensor one_q = Tensor::zeros(q.slice(q.rank() - 1, 0, 1).shape());  // whatever they hold
    const Tensor one_k = Tensor::zeros(k.slice(k.rank() - 1, 0, 1).shape());
    const Tensor logits = reference::attention(one_q, one_k, one_k, mask_alone).logits;
    const Tensor keys = batch_->in_form(k);
    for (std::int64_t b = 0; b < batch_->size(); ++b) {
      find(b, batch_->queries(logits.view(), b), batch_->keys(keys.view(), b));
    }
  }

  bool empty() const { return queries_.empty() && keys_.empty(); }

  // Puts the number into these rows of an array with one for each query, or for each key.
  void put_into_queries(const TensorView& array, double number) const {
    for (const auto& [b, h, i] : queries_) put(batch_->queries(writable(array), b).select(0, h).select(0, i), number);
  }
  void put_into_keys(const TensorView& array, double number) const {
    for (const auto& [b, h, i] : keys_) put(batch_->keys(writable(array), b).select(0, h).select(0, i), number);
  }

 private:
  struct Row {
    std::int64_t batch, head, index;
  };

  // logits [heads, q_len, k_len or more]: 0 where the key is seen; keys [kv_heads, k_len, size].
  void find(std::int64_t b, const TensorView& logits, const TensorView& keys) {
    const std::int64_t heads = logits.size(0), kv_heads = keys.size(0), k_len = keys.size(1);
    std::vector<bool> seen(static_cast<std::size_t>(kv_heads * k_len));
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < logits.size(1); ++i) {
        bool sees = false;
        for (std::int64_t j = 0; j < k_len; ++j) {
          if (logits.at<double>({h, i, j}) != 0) continue;
          sees = seen[static_cast<std::size_t>(h / (heads / kv_heads) * k_len + j)] = true;
        }
        if (!sees) queries_.push_back({b, h, i});
      }
    }
    for (std::size_t at = 0; at < seen.size(); ++at) {
      const auto row = static_cast<std::int64_t>(at);
      if (!seen[at]) keys_.push_back({b, row / k_len, row % k_len});
    }
  }

  // With a batch, if the array has none.
  MutableTensorView writable(const TensorView& array) const {
    Dims shape, strides;
    if (array.rank() == 3 && !packed_) shape.push_back(1), strides.push_back(0);
    for (const std::int64_t extent : array.shape()) shape.push_back(extent);
    for (const std::int64_t stride : array.strides()) strides.push_back(stride);
    return {const_cast<std::byte*>(array.bytes()), array.dtype(), shape, strides};
  }
  static void put(const MutableTensorView& row, double number) { convert(filled(row.shape(), number), row); }

  std::optional<reference::Batch> batch_;
  bool packed_ = false;
  std::vector<Row> queries_, keys_;
};

}  // namespace qkv::testing
