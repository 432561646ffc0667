// The logistic function and the hyperbolic tangent over vectors. Included once per CPU target.

#if defined(QKV_SIMD_LOGISTIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_LOGISTIC_INL_H_
#undef QKV_SIMD_LOGISTIC_INL_H_
#else
#define QKV_SIMD_LOGISTIC_INL_H_
#endif

#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// 1 / (1 + e^-x) and its derivative, from the exponential of -|x|, which cannot overflow.
template <class T>
struct Logistic {
  HWY_INLINE explicit Logistic(Vec<T> x) {
    const Tag<T> d;
    const Vec<T> one = hn::Set(d, T(1));
    const Vec<T> power = exp2<T>(hn::Mul(hn::Abs(x), hn::Set(d, T(-1.4426950408889634074))));
    const Vec<T> sum = hn::Add(one, power);
    value = hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), power, one), sum);
    slope = hn::Div(power, hn::Mul(sum, sum));
  }

  Vec<T> value, slope;
};

// tanh(x) as recurrent gates need it, (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x: absolute error about one
// rounding of 1.
template <class T>
HWY_INLINE Vec<T> gate_tanh(Vec<T> x) {
  const Tag<T> d;
  const Vec<T> one = hn::Set(d, T(1));
  const Vec<T> power = exp2<T>(hn::Mul(hn::Abs(x), hn::Set(d, T(-2.8853900817779268147))));
  return hn::CopySign(hn::Div(hn::Sub(one, power), hn::Add(one, power)), x);
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
