// What the projections of multi-head attention take and give, and the order of their blocks.
#pragma once

#include "layers/basic/rows.h"
#include "layers/heads/head_layout.h"
#include "ops/matmul/matmul_columns.h"
#include "ops/matmul/reduced_product.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv {

inline namespace layers {

// Rows that pass through the projections together: they stay in the second-level cache.
inline constexpr std::int64_t kProjectedRows = 128;
inline std::int64_t projected_rows(WeightStorage storage) {
  return is_reduced(storage) ? kReducedBlockRows : kProjectedRows;
}

inline bool is_same(const TensorView& a, const TensorView& b) {
  return a.bytes() == b.bytes() && a.shape() == b.shape() && a.strides() == b.strides();
}

}  // namespace layers

// Those of query, key and value, and the norms that their rows pass through.
struct MultiHeadAttention::Inputs {
  const Sequences& operator[](int role) const { return role == 0 ? query : role == 1 ? key : value; }
  NormedRows rows(int role) const { return {(*this)[role].rows, role == 0 ? query_norm : memory_norm}; }
  // Whether two roles have the same rows.
  bool share(int role, int other) const {
    const NormedRows own = rows(role), others = rows(other);
    return own.norm == others.norm && is_same(own.rows, others.rows);
  }

  const Sequences &query, &key, &value;
  const LayerNorm *query_norm = nullptr, *memory_norm = nullptr;
};

// Some rows [n, in], rounded once for all projections in reduced precision.
struct MultiHeadAttention::InputBlock {
  InputBlock(const TensorView& own, WeightStorage storage, int threads) : rows(own) {
    if (is_reduced(storage)) rounded.emplace(own, storage, threads);
  }
  // As matmul_columns(), which refuses a part of the columns in reduced precision.
  void multiply(const PackedMatrix& weight, std::int64_t first, const MutableTensorView& out,
                const MatmulOptions& options) const {
    const bool is_whole = first == 0 && out.size(1) == weight.columns();
    if (is_whole && rounded) return matmul(*rounded, weight, out, options);
    matmul_columns(rows, weight, first, out, options);
  }

  TensorView rows;
  std::optional<RoundedRows> rounded;
};

// Where some heads go: the rows of each role, and those of queries and keys before their norms, where these are kept.
struct MultiHeadAttention::Projected {
  std::int64_t first_kv_head;
  MutableTensorView rows[3];
  MutableTensorView before_norm[3];
};

}  // namespace qkv
