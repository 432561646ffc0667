// A function of the user's that changes logits. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_LOGIT_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_LOGIT_FUNCTIONS_INL_H_
#undef QKV_ATTENTION_TILE_LOGIT_FUNCTIONS_INL_H_
#else
#define QKV_ATTENTION_TILE_LOGIT_FUNCTIONS_INL_H_
#endif

#include <algorithm>

#include "attention/tile/logit_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
struct LogitFunctions {
  static bool is_on(const AttentionTask& task) { return task.common->logit_function != nullptr; }

  static void apply(const LogitTile<T, kVectors>& tile) {
    const std::int64_t keys = std::min<std::int64_t>(kTileRows, tile.task.k_len - tile.key);
    tile.task.common->logit_function->change_tile(PairTile<T>{.first = pair_of(tile.task, tile.begin, tile.key),
                                                              .queries = static_cast<std::int32_t>(tile.count),
                                                              .keys = static_cast<std::int32_t>(keys),
                                                              .query_step = 1,
                                                              .key_step = tile.kColumns,
                                                              .at = tile.at});
  }

  static void apply(const LogitRow<T>& row) {
    row.task.common->logit_function->change_tile(PairTile<T>{.first = pair_of(row.task, 0, row.chunk + row.first),
                                                             .queries = 1,
                                                             .keys = static_cast<std::int32_t>(row.last - row.first),
                                                             .query_step = kChunkKeys,
                                                             .key_step = 1,
                                                             .at = row.at + row.first});
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
