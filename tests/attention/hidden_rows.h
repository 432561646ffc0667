// Which queries see no key, and which keys no query sees: whatever they hold must not show.
#pragma once

#include "attention/attention_testing.h"
#include "reference/attention.h"
#include "reference/batch.h"

namespace qkv::testing {

class HiddenRows {
 public:
  HiddenRows() = default;
  // Of arrays of at least one query and one key, by the masks alone.
  HiddenRows(const TensorView& q, const TensorView& k, const AttentionOptions& options)
      : q_offsets_(values(options.offsets_query)), k_offsets_(values(options.offsets_key)) {
    AttentionOptions mask_alone{.mask = options.mask, .scale = 0};
    mask_alone.offsets_query = options.offsets_query, mask_alone.offsets_key = options.offsets_key;
    const TensorView one = k.slice(k.rank() - 1, 0, 1);
    const Tensor logits = reference::attention(q.slice(q.rank() - 1, 0, 1), one, one, mask_alone).logits;
    const reference::Batch batch(q, k, options);
    const Tensor keys = batch.in_form(k);
    for (std::int64_t b = 0; b < batch.size(); ++b)
      find(b, batch.queries(logits.view(), b), batch.keys(keys.view(), b));
  }

  // Puts the number into these rows of an array with one for each query, or for each key.
  void put_into_queries(const TensorView& array, double number) const {
    for (const Row& row : queries_) put(row_of(array, q_offsets_, row), number);
  }
  void put_into_keys(const TensorView& array, double number) const {
    for (const Row& row : keys_) put(row_of(array, k_offsets_, row), number);
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

  static std::vector<std::int64_t> values(const TensorView& offsets) {
    if (!offsets) return {};
    const Tensor wide = convert(offsets, Dtype::i64);
    return {wide.data<std::int64_t>(), wide.data<std::int64_t>() + wide.element_count()};
  }

  // Of packed rows or [batch, heads, rows, size], the latter also without a batch.
  static MutableTensorView row_of(const TensorView& array, const std::vector<std::int64_t>& offsets, const Row& row) {
    const MutableTensorView whole(const_cast<std::byte*>(array.bytes()), array.dtype(), array.shape(), array.strides());
    if (!offsets.empty()) {
      return whole.select(0, offsets[static_cast<std::size_t>(row.batch)] + row.index).select(0, row.head);
    }
    const MutableTensorView heads = whole.rank() == 4 ? whole.select(0, row.batch) : whole;
    return heads.select(0, row.head).select(0, row.index);
  }
  static void put(const MutableTensorView& row, double number) { convert(filled(row.shape(), number), row); }

  std::vector<std::int64_t> q_offsets_, k_offsets_;
  std::vector<Row> queries_, keys_;
};

}  // namespace qkv::testing
