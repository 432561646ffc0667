// The online softmax of a block of queries, one query a lane: running maximum, sum of weights, and how both move when a
// tile of logits comes in. Every decision is taken lane by lane, so that a row's bits never depend on its neighbours.
// Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_SOFTMAX_STATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_SOFTMAX_STATE_INL_H_
#undef QKV_ATTENTION_TILE_SOFTMAX_STATE_INL_H_
#else
#define QKV_ATTENTION_TILE_SOFTMAX_STATE_INL_H_
#endif

#include <limits>

#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();

// Logits come in one of two units. Where there is nothing between products and softmax they are the bare products,
// scaled to powers of 2 when the maximum is subtracted (in two roundings: fused, the largest logit of a row would not
// become 0, and logits beyond 2^24 would make nonsense of its weight). Natural logits are what soft cap and biases are
// defined on, and a bias of the lowest finite number must not overflow in them.
enum class Unit { base2, natural };

inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;

// The natural logarithm of what one more in a logit multiplies its weight by.
template <Unit kUnit>
inline constexpr double kUnitLogarithm = kUnit == Unit::base2 ? kLn2 : 1;

// e^x or 2^x, by the unit of x.
template <Unit kUnit, class T>
HWY_INLINE Vec<T> power(Vec<T> x) {
  if constexpr (kUnit == Unit::natural) x = hn::Mul(x, hn::Set(Tag<T>(), T(kLog2E)));
  return exp2<T>(x);
}

// Weights are e^(logit - maximum). The maximum is lazy: it moves only when a logit exceeds it by more than 2^8 in
// weight, which f32 bears and which almost never happens after the first tile.
template <Unit kUnit, class T>
inline constexpr T kLazyMargin = kUnit == Unit::base2 ? T(8) : T(8 * kLn2);

template <class T, int kVectors>
struct SoftmaxState {
  static constexpr int kColumns = kVectors * kLanes<T>;

  HWY_ALIGN T maximum[kColumns];  // in powers of 2, or natural
  HWY_ALIGN T margin[kColumns];   // a logit this far above the maximum moves it; -infinity before the first key
  HWY_ALIGN T sum[kColumns];      // of the weights of finished blocks of keys; 0: no key so far
  HWY_ALIGN T block[kColumns];    // of the present one: a chain of a thousand additions loses bits

  HWY_INLINE void reset() {
    const Tag<T> d;
    for (int c = 0; c < kColumns; c += kLanes<T>) {
      hn::Store(hn::Zero(d), d, maximum + c);
      hn::Store(hn::Set(d, -kInfinity<T>), d, margin + c);
      hn::Store(hn::Zero(d), d, sum + c);
      hn::Store(hn::Zero(d), d, block + c);
    }
  }

  HWY_INLINE void finish_block() {
    const Tag<T> d;
    for (int c = 0; c < kColumns; c += kLanes<T>) {
      hn::Store(hn::Add(hn::Load(d, sum + c), hn::Load(d, block + c)), d, sum + c);
      hn::Store(hn::Zero(d), d, block + c);
    }
  }

  // Whether some lane's maximum must move for a tile whose largest logits are `top`, times `unit`. The tile's first
  // vector is vector `first`.
  template <int kCount>
  HWY_INLINE bool is_exceeded_by(const Vec<T> (&top)[kCount], Vec<T> unit, int first) const {
    const Tag<T> d;
    const int begin = first * kLanes<T>;
    auto moves = hn::Gt(hn::Sub(hn::Mul(top[0], unit), hn::Load(d, maximum + begin)), hn::Load(d, margin + begin));
    QKV_UNROLL for (int c = 1; c < kCount; ++c) {
      const int at = begin + c * kLanes<T>;
      moves =
          hn::Or(moves, hn::Gt(hn::Sub(hn::Mul(top[c], unit), hn::Load(d, maximum + at)), hn::Load(d, margin + at)));
    }
    return !hn::AllFalse(d, moves);
  }

  // Moves the maximum of the lanes whose margin `top` exceeds. Returns the factor that a lane's older weights and sums
  // must be multiplied by: 1 where nothing moved and where nothing older exists.
  template <Unit kUnit, int kCount>
  HWY_INLINE void move_maximum(const Vec<T> (&top)[kCount], Vec<T> unit, int first, Vec<T> (&factor)[kCount]) {
    const Tag<T> d;
    QKV_UNROLL for (int c = 0; c < kCount; ++c) {
      const int at = (first + c) * kLanes<T>;
      const Vec<T> old_margin = hn::Load(d, margin + at), old_maximum = hn::Load(d, maximum + at);
      const auto moves = hn::Gt(hn::Sub(hn::Mul(top[c], unit), old_maximum), old_margin);
      const auto begins = hn::Eq(old_margin, hn::Set(d, -kInfinity<T>));
      const Vec<T> new_maximum = hn::IfThenElse(moves, hn::Mul(top[c], unit), old_maximum);
      hn::Store(new_maximum, d, maximum + at);
      hn::Store(hn::IfThenElse(moves, hn::Set(d, kLazyMargin<kUnit, T>), old_margin), d, margin + at);
      factor[c] = power<kUnit, T>(hn::IfThenZeroElse(begins, hn::Sub(old_maximum, new_maximum)));
      hn::Store(hn::Mul(hn::Load(d, sum + at), factor[c]), d, sum + at);
      hn::Store(hn::Mul(hn::Load(d, block + at), factor[c]), d, block + at);
    }
  }
};

// Logits in powers of 2 once multiplied by `unit`, none of which moves a maximum, become weights: `rows`
// [count][columns].
template <class Product, int kVectors, class T>
HWY_INLINE void weigh_rows(SoftmaxState<T, kVectors>& state, Vec<T> unit, T* rows, std::int64_t count) {
  const Tag<T> d;
  Vec<T> maximum[kVectors], sum[kVectors];
  QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
    maximum[c] = hn::Load(d, state.maximum + c * kLanes<T>);
    sum[c] = hn::Load(d, state.block + c * kLanes<T>);
  }
  for (std::int64_t r = 0; r < count; ++r, rows += kVectors * kLanes<T>) {
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      T* at = rows + c * kLanes<T>;
      const Vec<T> above = hn::Sub(hn::Mul(hn::Load(d, at), unit), maximum[c]);
      const Vec<T> weight = Product::template weight<Unit::base2, T>(above);
      sum[c] = hn::Add(sum[c], weight);
      hn::Store(weight, d, at);
    }
  }
  QKV_UNROLL for (int c = 0; c < kVectors; ++c) hn::Store(sum[c], d, state.block + c * kLanes<T>);
}

// data[row][column] *= factor[column], rows `step` apart.
template <int kVectors, class T>
HWY_INLINE void scale_columns(T* data, std::int64_t step, std::int64_t rows, const Vec<T> (&factor)[kVectors]) {
  const Tag<T> d;
  for (std::int64_t r = 0; r < rows; ++r, data += step) {
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      T* at = data + c * kLanes<T>;
      hn::Store(hn::Mul(hn::Load(d, at), factor[c]), d, at);
    }
  }
}

// Adds another part of the keys: state and out [rows][column] become those of both. A part without keys adds nothing
// and changes no bit.
template <Unit kUnit, int kVectors, class T>
HWY_INLINE void merge_states(SoftmaxState<T, kVectors>& state, T* out, const SoftmaxState<T, kVectors>& other,
                             const T* other_out, std::int64_t rows) {
  const Tag<T> d;
  Vec<T> factor[kVectors], other_factor[kVectors];
  QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
    const int at = c * kLanes<T>;
    const Vec<T> sum = hn::Load(d, state.sum + at), other_sum = hn::Load(d, other.sum + at);
    const Vec<T> maximum = hn::Load(d, state.maximum + at), other_maximum = hn::Load(d, other.maximum + at);
    const auto empty = hn::Eq(sum, hn::Zero(d)), other_empty = hn::Eq(other_sum, hn::Zero(d));
    const Vec<T> both =
        hn::IfThenElse(empty, other_maximum, hn::IfThenElse(other_empty, maximum, hn::Max(maximum, other_maximum)));
    factor[c] = hn::IfThenZeroElse(empty, power<kUnit, T>(hn::Sub(maximum, both)));
    other_factor[c] = hn::IfThenZeroElse(other_empty, power<kUnit, T>(hn::Sub(other_maximum, both)));
    hn::Store(both, d, state.maximum + at);
    hn::Store(hn::MulAdd(other_sum, other_factor[c], hn::Mul(sum, factor[c])), d, state.sum + at);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      const std::int64_t at = (r * kVectors + c) * kLanes<T>;
      const Vec<T> scaled = hn::Mul(hn::Load(d, out + at), factor[c]);
      hn::Store(hn::MulAdd(hn::Load(d, other_out + at), other_factor[c], scaled), d, out + at);
    }
  }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
