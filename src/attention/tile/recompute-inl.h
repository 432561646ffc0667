// Recomputes the weights of a tile from its logits and the log-sum-exp that the forward pass kept, for all
// derivatives. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_RECOMPUTE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_RECOMPUTE_INL_H_
#undef QKV_ATTENTION_TILE_RECOMPUTE_INL_H_
#else
#define QKV_ATTENTION_TILE_RECOMPUTE_INL_H_
#endif

#include "attention/tile/logits-inl.h"
#include "attention/tile/visibility-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Two tiles [key][query] are held at once, so half of the forward pass's.
inline constexpr std::int64_t kBackwardKeys = 64;
static_assert(kChunkKeys % kBackwardKeys == 0);

// What log_sum_exp is multiplied with to be in the unit of the logits. A row without keys has infinity there, and so
// weights of 0, whatever it holds.
template <class T>
T log_sum_exp_of(const AttentionTask& task, T natural) {
  if (natural == -kInfinity<T>) return kInfinity<T>;
  return natural * (task.is_plain ? T(kLog2E) : T(1));
}

// weights [kTileRows][column] of keys key ... key + kTileRows - 1, in kCount of the columns' vectors from `vector` on;
// a hidden key has weight -0. If kMasked, the tile's booleans were loaded.
template <Unit kUnit, bool kMasked, int kCount, class T, int kVectors>
HWY_INLINE void recompute_weights(const AttentionTask& task, std::int64_t key, int vector, const T* log_sum_exp,
                                  const Visibility<T, kVectors>& visibility, BlockLogits<T, kVectors>& logits,
                                  T* weights) {
  const Tag<T> d;
  Vec<T> tile[kTileRows][kCount];
  if constexpr (kCount == kVectors) {
    logits.template compute<kUnit>(task, key, tile);
  } else {
    static_assert(kUnit == Unit::base2);
    logits.compute_some(task, key, vector, tile);
  }
  typename Visibility<T, kVectors>::Lanes hidden[kTileRows][kCount];
  if constexpr (kMasked) visibility.hide(key, tile, vector, hidden);
  QKV_UNROLL for (int c = 0; c < kCount; ++c) {
    const std::int64_t column = (vector + c) * kLanes<T>;
    const Vec<T> unit = unit_of<kUnit, T>(task), log_sum = hn::Load(d, log_sum_exp + column);
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      Vec<T> weight = power<kUnit, T>(hn::Sub(hn::Mul(tile[r][c], unit), log_sum));
      if constexpr (kMasked) weight = hn::IfThenElse(hidden[r][c], hn::Set(d, T(-0.0)), weight);
      hn::Store(weight, d, weights + r * kVectors * kLanes<T> + column);
    }
  }
}

// kCount vectors, from `vector` on, of tile [kTileRows][column] become `value` where the key is hidden.
template <int kCount, class T, int kVectors>
HWY_INLINE void set_hidden(const Visibility<T, kVectors>& visibility, std::int64_t key, int vector, T value, T* tile) {
  const Tag<T> d;
  QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kCount; ++c) {
      T* at = tile + (r * kVectors + vector + c) * kLanes<T>;
      hn::Store(hn::IfThenElse(visibility.hidden(key, r, vector + c), hn::Set(d, value), hn::Load(d, at)), d, at);
    }
  }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
