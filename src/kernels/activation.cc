// relu and the exact GELU, x Phi(x) with the normal distribution function Phi, over vectors.
#include "kernels/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include "kernels/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "kernels/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// With t = |x|: gelu(x) = max(x, 0) - t Phi(-t), and Phi(-t) = e^(-t^2 / 2) w S(w), w = 1 / (t + shift): what the
// exponential leaves of Phi(-t) falls as 1 / t, so that S is nearly constant. Its polynomial interpolates at
// Chebyshev's nodes for t = 0 to limit, with relative error 1.2e-8 (f32) and 1.3e-17 (f64). Beyond the limit Phi(-t) is
// 0.
template <class T>
struct Tail;

template <>
struct Tail<float> {
  static constexpr float kShift = 4, kLimit = 14;
  static constexpr float kPolynomial[] = {0x1.989556p-2f, 0x1.9735e2p+0f,  0x1.89d57ep+2f, 0x1.1aabf2p+4f,
                                          0x1.86a888p+6f, -0x1.e213d6p+3f, 0x1.8bd25ep+9f, 0x1.2bf3c2p+11f,
                                          -0x1.cd95p+13f, 0x1.f81704p+13f};
};

template <>
struct Tail<double> {
  static constexpr double kShift = 5, kLimit = 40;
  static constexpr double kPolynomial[] = {
      0x1.9884533da5854p-2,  0x1.fea567ebda0d2p+0,   0x1.326340f4b19f2p+3,  0x1.5f117a0c1debep+5,
      0x1.7d6793e617acfp+7,  0x1.84c6090f259e7p+9,   0x1.70dea8384a6dap+11, 0x1.2b4c07a4f3051p+13,
      0x1.36bdebdf0f468p+15, -0x1.efcb79587967ap+16, 0x1.74ecfb8e2af0ap+21, -0x1.1e36fbea847f6p+25,
      0x1.64c0648f577c5p+28, -0x1.6fa66cd29cdd3p+31, 0x1.2b1d58cfb0143p+34, -0x1.7f2231b452e48p+36,
      0x1.76d4730a0e7ep+38,  -0x1.090bd72f9510bp+40, 0x1.f2a36ec284484p+40, -0x1.00cb714231b8ap+41,
      0x1.02c8c3e176961p+37, 0x1.0a3df0169a603p+41,  -0x1.a4ccbd14069abp+40};
};

template <class T>
HWY_INLINE Vec<T> gelu(Vec<T> x) {
  const Tag<T> d;
  const Vec<T> t = hn::Min(hn::Abs(x), hn::Set(d, Tail<T>::kLimit));
  const Vec<T> w = hn::Div(hn::Set(d, T(1)), hn::Add(t, hn::Set(d, Tail<T>::kShift)));
  constexpr int kTerms = static_cast<int>(sizeof(Tail<T>::kPolynomial) / sizeof(T));
  Vec<T> s = hn::Set(d, Tail<T>::kPolynomial[kTerms - 1]);
  QKV_UNROLL for (int i = kTerms - 2; i >= 0; --i) s = hn::MulAdd(s, w, hn::Set(d, Tail<T>::kPolynomial[i]));
  const Vec<T> half_log2_e = hn::Set(d, T(-0.72134752044448170368));
  const Vec<T> power = exp2<T>(hn::Mul(hn::Mul(t, t), half_log2_e));
  const Vec<T> tail = hn::Mul(hn::Mul(t, w), hn::Mul(s, power));
  // A NaN is not below 0 and stays one.
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(tail), hn::Sub(x, tail));
}

template <class T>
HWY_INLINE Vec<T> relu(Vec<T> x) {
  const Tag<T> d;
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
}

template <class T, class Function>
HWY_INLINE void apply(Function function, T* x, std::int64_t count) {
  const Tag<T> d;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) hn::StoreU(function(hn::LoadU(d, x + i)), d, x + i);
  if (i == count) return;
  HWY_ALIGN T rest[kLanes<T>] = {};
  for (std::int64_t j = i; j < count; ++j) rest[j - i] = x[j];
  hn::Store(function(hn::Load(d, rest)), d, rest);
  for (std::int64_t j = i; j < count; ++j) x[j] = rest[j - i];
}

template <class T>
void activate_typed(Activation activation, T* x, std::int64_t count) {
  switch (activation) {
    case Activation::gelu:
      return apply([](Vec<T> v) HWY_ATTR { return gelu<T>(v); }, x, count);
    case Activation::relu:
      return apply([](Vec<T> v) HWY_ATTR { return relu<T>(v); }, x, count);
  }
}

void activate_f32(Activation activation, float* x, std::int64_t count) { activate_typed(activation, x, count); }
void activate_f64(Activation activation, double* x, std::int64_t count) { activate_typed(activation, x, count); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "kernels/dispatch.h"

namespace qkv {
namespace {

HWY_EXPORT(activate_f32);
HWY_EXPORT(activate_f64);

}  // namespace

void activate(Activation activation, float* x, std::int64_t count) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(activate_f32)(activation, x, count);
}

void activate(Activation activation, double* x, std::int64_t count) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(activate_f64)(activation, x, count);
}

}  // namespace qkv
#endif  // HWY_ONCE
