/// \file
/// Terms added to the logits after scale and soft cap. Biases combine by `+`: at most four views and four tables.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention/relative_table.h"
#include "qkv/tensor.h"

namespace qkv {

class QKV_API Bias {
 public:
  /// Nothing is added.
  Bias() = default;

  /// `values`: f32 (f64 for f64 inputs), broadcastable to [batch, heads, q_len, k_len]. Follows IEEE arithmetic: an
  /// infinity or NaN in it reaches the result. Borrowed until the bias's last use.
  static Bias view(TensorView values);
  /// -slope * |p - j|, with p and j as in mask.h. `slopes`: f32 [heads] or [batch, heads]. Borrowed.
  /// Source: Press et al., "Train short, test long" (2021).
  static Bias alibi(TensorView slopes);

  /// Adds table[bucket(p, j)] of the head, or its product with the query; relative_table.h has the buckets. Takes no
  /// memory of the size of the logits.
  static Bias table(const RelativeTable& table);
  static Bias clipped(TensorView values) { return table(RelativeTable::clipped(values)); }
  static Bias shaw(TensorView values) { return table(RelativeTable::shaw(values)); }
  static Bias t5(TensorView values, const RelativeTable::T5Buckets& buckets = {}) {
    return table(RelativeTable::t5(values, buckets));
  }
  static Bias swin(TensorView values, std::int64_t height, std::int64_t width) {
    return table(RelativeTable::swin(values, height, width));
  }

  friend QKV_API Bias operator+(Bias a, const Bias& b);

  const std::vector<TensorView>& views() const { return views_; }
  const std::vector<TensorView>& alibi_slopes() const { return alibi_; }
  const std::vector<RelativeTable>& tables() const { return tables_; }
  bool empty() const { return views_.empty() && alibi_.empty() && tables_.empty(); }

 private:
  std::vector<TensorView> views_;
  std::vector<TensorView> alibi_;
  std::vector<RelativeTable> tables_;
};

}  // namespace qkv
