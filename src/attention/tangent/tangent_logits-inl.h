// The tangents of the logits of a block of queries against a tile of keys: scale * (tangent of q . k + q . tangent of
// k). Included once per CPU target.

#if defined(QKV_ATTENTION_TANGENT_TANGENT_LOGITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TANGENT_TANGENT_LOGITS_INL_H_
#undef QKV_ATTENTION_TANGENT_TANGENT_LOGITS_INL_H_
#else
#define QKV_ATTENTION_TANGENT_TANGENT_LOGITS_INL_H_
#endif

#include "attention/tangent/jvp_kernel.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
class TangentLogits {
 public:
  static constexpr int kColumns = kVectors * kLanes<T>;
  using Tile = Vec<T>[kTileRows][kVectors];

  // In elements of T.
  static std::int64_t scratch_size(const AttentionTask& task) {
    return 2 * task.common->query_dim * kColumns + key_rows_size(task);
  }

  TangentLogits(const AttentionTask& task, const TaskTangents& tangents) : task_(task), tangents_(tangents) {}

  // Reads the block's queries and their tangents.
  void prepare(std::int64_t begin, std::int64_t count, ScratchRoom& scratch) {
    queries_ = scratch.take<T>(task_.common->query_dim * kColumns);
    query_tangents_ = scratch.take<T>(task_.common->query_dim * kColumns);
    key_rows_ = scratch.take<T>(key_rows_size(task_));
    if (tangents_.key.data != nullptr) transpose_scaled(task_.query, begin, count, queries_);
    if (tangents_.query.data != nullptr) transpose_scaled(tangents_.query, begin, count, query_tangents_);
  }

  // tile += those of keys key ... key + kTileRows - 1; beyond the last key, anything finite.
  HWY_INLINE void add(std::int64_t key, Tile& tile) {
    if (tangents_.query.data != nullptr) multiply(task_.key, key, query_tangents_, tile);
    if (tangents_.key.data != nullptr) multiply(tangents_.key, key, queries_, tile);
  }

 private:
  static std::int64_t key_rows_size(const AttentionTask& task) {
    return whole_vectors<T>(kTileRows * task.common->key_dim);
  }

  void transpose_scaled(const Rows& rows, std::int64_t begin, std::int64_t count, T* to) const {
    const Tag<T> d;
    const T* from = reinterpret_cast<const T*>(rows.data) + begin * rows.step;
    for (std::int64_t first = 0; first < kColumns; first += kLanes<T>) {
      rows_to_lanes(from + first * rows.step, rows.step, count - first, task_.common->query_dim, to + first, kColumns);
    }
    const Vec<T> scale = hn::Set(d, static_cast<T>(task_.common->scale));
    for (T* at = to; at < to + task_.common->query_dim * kColumns; at += kLanes<T>) {
      hn::Store(hn::Mul(hn::Load(d, at), scale), d, at);
    }
  }

  HWY_INLINE void multiply(const Rows& keys, std::int64_t key, const T* queries, Tile& tile) {
    std::int64_t step;
    const T* rows = tile_rows<T>(keys, key, task_.k_len, task_.common->key_dim, key_rows_, step);
    multiply_tile<kTileRows, kVectors, T>(rows, step, 1, queries, kColumns, task_.common->key_dim, tile);
  }

  const AttentionTask& task_;
  const TaskTangents& tangents_;
  T* queries_ = nullptr;         // times the scale, [query_dim][kColumns]
  T* query_tangents_ = nullptr;  // the same
  T* key_rows_ = nullptr;        // [kTileRows][key_dim]
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
