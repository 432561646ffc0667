// The gradients of additive scores v . tanh(a + b), with a the hidden layer of a query and b that of a key, from a tile
// of gradients of scores. Included once per CPU target.

#if defined(QKV_ATTENTION_BACKWARD_ADDITIVE_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_BACKWARD_ADDITIVE_GRADIENTS_INL_H_
#undef QKV_ATTENTION_BACKWARD_ADDITIVE_GRADIENTS_INL_H_
#else
#define QKV_ATTENTION_BACKWARD_ADDITIVE_GRADIENTS_INL_H_
#endif

#include "attention/tile/logits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// What the gradients of a tile are made from, and the sums that they are added to.
template <class T>
struct AdditiveTile {
  std::int64_t hidden, queries;
  const T* of_queries;  // a [hidden][column]
  const T* of_keys;     // b [kTileRows][of_keys_step]
  std::int64_t of_keys_step;
  const T* v;          // [hidden]
  const T* gradients;  // of the scores, [kTileRows][column]; 0: the pair takes no part, whatever a, b and v hold
  T* grad_queries;     // of a, [hidden][column]
  T* grad_keys;        // of b, [kTileRows][key_step]
  std::int64_t key_step;
  T* grad_v;  // [hidden][column], still to be summed over columns
};

template <int kVectors, class T>
void add_additive_gradients(const AdditiveTile<T>& tile) {
  const Tag<T> d;
  constexpr std::int64_t kColumns = kVectors * kLanes<T>;
  for (std::int64_t h = 0; h < tile.hidden; ++h) {
    Vec<T> sum[kVectors], sum_v[kVectors];
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) sum[c] = sum_v[c] = hn::Zero(d);
    for (int r = 0; r < kTileRows; ++r) {
      const Vec<T> of_key = hn::Set(d, tile.of_keys[r * tile.of_keys_step + h]);
      Vec<T> sum_key = hn::Zero(d);
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
        const std::int64_t first = c * kLanes<T>;
        const auto used = hn::Lt(hn::Iota(d, static_cast<T>(first)), hn::Set(d, static_cast<T>(tile.queries)));
        const Vec<T> gradient = hn::IfThenElseZero(used, hn::Load(d, tile.gradients + r * kColumns + first));
        const Vec<T> t = tanh<T>(hn::Add(hn::Load(d, tile.of_queries + h * kColumns + first), of_key));
        const auto none = hn::Eq(gradient, hn::Zero(d));
        const Vec<T> slope = hn::NegMulAdd(t, t, hn::Set(d, T(1)));
        const Vec<T> inner = hn::IfThenZeroElse(none, hn::Mul(gradient, slope));
        sum[c] = hn::Add(sum[c], inner);
        sum_key = hn::Add(sum_key, inner);
        sum_v[c] = hn::Add(sum_v[c], hn::IfThenZeroElse(none, hn::Mul(gradient, t)));
      }
      const T of_all = hn::GetLane(hn::SumOfLanes(d, sum_key));
      if (of_all != 0) tile.grad_keys[r * tile.key_step + h] += tile.v[h] * of_all;
    }
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      T* grad_queries = tile.grad_queries + h * kColumns + c * kLanes<T>;
      T* grad_v = tile.grad_v + h * kColumns + c * kLanes<T>;
      const Vec<T> before = hn::Load(d, grad_queries), after = hn::MulAdd(sum[c], hn::Set(d, tile.v[h]), before);
      hn::Store(hn::IfThenElse(hn::Eq(sum[c], hn::Zero(d)), before, after), d, grad_queries);
      hn::Store(hn::Add(hn::Load(d, grad_v), sum_v[c]), d, grad_v);
    }
  }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
