// Biases that are arrays, one number for each pair. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_BIAS_ARRAYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_BIAS_ARRAYS_INL_H_
#undef QKV_ATTENTION_TILE_BIAS_ARRAYS_INL_H_
#else
#define QKV_ATTENTION_TILE_BIAS_ARRAYS_INL_H_
#endif

#include <algorithm>

#include "attention/tile/logit_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
struct BiasArrays {
  static bool is_on(const AttentionTask& task) { return task.common->bias_count != 0; }

  static void apply(const LogitTile<T, kVectors>& tile) {
    for (int p = 0; p < tile.task.common->bias_count; ++p) {
      const Plane& plane = tile.task.biases[p];
      const T* bias =
          reinterpret_cast<const T*>(plane.data) + tile.begin * plane.query_step + tile.key * plane.key_step;
      const std::int64_t rows = std::min<std::int64_t>(kTileRows, tile.task.k_len - tile.key);
      for (std::int64_t i = 0; i < tile.count; ++i) {
        for (std::int64_t r = 0; r < rows; ++r) {
          tile.at[r * tile.kColumns + i] += bias[i * plane.query_step + r * plane.key_step];
        }
      }
    }
  }

  static void apply(const LogitRow<T>& row) {
    for (int p = 0; p < row.task.common->bias_count; ++p) {
      const Plane& plane = row.task.biases[p];
      const T* bias = reinterpret_cast<const T*>(plane.data) + (row.chunk + row.first) * plane.key_step;
      for (std::int64_t j = row.first; j < row.last; ++j, bias += plane.key_step) row.at[j] += *bias;
    }
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
