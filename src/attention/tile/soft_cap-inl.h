// Soft capping: cap * tanh(logit / cap). Source: Gemma Team, "Gemma 2" (2024), section 2. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_SOFT_CAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_SOFT_CAP_INL_H_
#undef QKV_ATTENTION_TILE_SOFT_CAP_INL_H_
#else
#define QKV_ATTENTION_TILE_SOFT_CAP_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include "attention/tile/logit_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Highway's makes integers of its argument, which of NaN is undefined in portable code.
template <class T>
HWY_INLINE Vec<T> tanh(Vec<T> x) {
  const auto is_number = hn::Eq(x, x);
  return hn::IfThenElse(is_number, hn::Tanh(Tag<T>(), hn::IfThenElseZero(is_number, x)), x);
}

template <class T, int kVectors>
struct SoftCap {
  static bool is_on(const AttentionTask& task) { return task.common->soft_cap != 0; }

  static void apply(const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    const T cap = static_cast<T>(tile.task.common->soft_cap);
    for (T* at = tile.at; at < tile.at + kTileRows * tile.kColumns; at += kLanes<T>) {
      const Vec<T> ratio = hn::Div(hn::Load(d, at), hn::Set(d, cap));
      hn::Store(hn::Mul(tanh<T>(ratio), hn::Set(d, cap)), d, at);
    }
  }

  // Of whole vectors: what is outside of the row is nobody's.
  static void apply(const LogitRow<T>& row) {
    const Tag<T> d;
    const Vec<T> cap = hn::Set(d, static_cast<T>(row.task.common->soft_cap));
    for (std::int64_t j = row.first / kLanes<T> * kLanes<T>; j < row.last; j += kLanes<T>) {
      hn::Store(hn::Mul(tanh<T>(hn::Div(hn::Load(d, row.at + j), cap)), cap), d, row.at + j);
    }
  }

  // gradients *= 1 - tanh^2(logits / cap), of logits before the cap. A gradient of 0 stays so: the slope of a hidden
  // key may be NaN.
  static void multiply_slope(const AttentionTask& task, const T* logits, T* gradients) {
    const Tag<T> d;
    const Vec<T> cap = hn::Set(d, static_cast<T>(task.common->soft_cap));
    for (int at = 0; at < kTileRows * kVectors * kLanes<T>; at += kLanes<T>) {
      const Vec<T> ratio = tanh<T>(hn::Div(hn::Load(d, logits + at), cap));
      const Vec<T> slope = hn::NegMulAdd(ratio, ratio, hn::Set(d, T(1)));
      const Vec<T> gradient = hn::Load(d, gradients + at);
      hn::Store(hn::IfThenZeroElse(hn::Eq(gradient, hn::Zero(d)), hn::Mul(gradient, slope)), d, gradients + at);
    }
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
