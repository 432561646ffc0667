// The natural logits that a term changes. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_LOGIT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_LOGIT_TILE_INL_H_
#undef QKV_ATTENTION_TILE_LOGIT_TILE_INL_H_
#else
#define QKV_ATTENTION_TILE_LOGIT_TILE_INL_H_
#endif

#include "attention/tile/attention_task.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Keys key ... key + kTileRows - 1 against queries begin <= i < begin + count: [kTileRows][kVectors lanes].
template <class T, int kVectors>
struct LogitTile {
  static constexpr int kColumns = kVectors * kLanes<T>;

  const AttentionTask& task;
  std::int64_t begin, count, key;
  T* at;
};

// Keys chunk + j, for first <= j < last, against the only query of a sequence: at[j]. What fills the vectors around is
// -infinity.
template <class T>
struct LogitRow {
  const AttentionTask& task;
  std::int64_t chunk, first, last;
  T* at;
  const T* query;  // in T
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
