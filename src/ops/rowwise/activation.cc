// relu, SiLU, the exact GELU, x Phi(x) with the normal distribution function Phi, and its approximation by a hyperbolic
// tangent, over vectors.
#include "ops/rowwise/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rowwise/activation.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/logistic-inl.h"

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

// Phi(-t) and the density at t.
template <class T>
struct NormalTail {
  HWY_INLINE explicit NormalTail(Vec<T> t) {
    const Tag<T> d;
    const Vec<T> w = hn::Div(hn::Set(d, T(1)), hn::Add(t, hn::Set(d, Tail<T>::kShift)));
    constexpr int kTerms = static_cast<int>(sizeof(Tail<T>::kPolynomial) / sizeof(T));
    Vec<T> s = hn::Set(d, Tail<T>::kPolynomial[kTerms - 1]);
    QKV_UNROLL for (int i = kTerms - 2; i >= 0; --i) s = hn::MulAdd(s, w, hn::Set(d, Tail<T>::kPolynomial[i]));
    const Vec<T> half_log2_e = hn::Set(d, T(-0.72134752044448170368));
    const Vec<T> power = exp2<T>(hn::Mul(hn::Mul(t, t), half_log2_e));
    share = hn::Mul(w, hn::Mul(s, power));
    density = hn::Mul(power, hn::Set(d, T(0.39894228040143267794)));
  }

  Vec<T> share, density;
};

template <class T>
struct Gelu {
  static HWY_INLINE Vec<T> value(Vec<T> x) {
    const Tag<T> d;
    const Vec<T> t = hn::Min(hn::Abs(x), hn::Set(d, Tail<T>::kLimit));
    const Vec<T> tail = hn::Mul(t, NormalTail<T>(t).share);
    // A NaN is not below 0 and stays one.
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(tail), hn::Sub(x, tail));
  }
  // Phi(x) + x density(x)
  static HWY_INLINE Vec<T> derivative(Vec<T> x) {
    const Tag<T> d;
    const Vec<T> t = hn::Min(hn::Abs(x), hn::Set(d, Tail<T>::kLimit));
    const NormalTail<T> tail(t);
    const Vec<T> below = hn::NegMulAdd(t, tail.density, tail.share);  // at -t
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, hn::Sub(hn::Set(d, T(1)), below));
  }
};

template <class T>
struct Relu {
  static HWY_INLINE Vec<T> value(Vec<T> x) {
    const Tag<T> d;
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
  static HWY_INLINE Vec<T> derivative(Vec<T> x) {
    const Tag<T> d;
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), hn::Set(d, T(1)));
  }
};

template <class T>
struct Silu {
  static HWY_INLINE Vec<T> value(Vec<T> x) { return hn::Mul(x, Logistic<T>(x).value); }
  // s + x s (1 - s) with s = logistic(x)
  static HWY_INLINE Vec<T> derivative(Vec<T> x) {
    const Tag<T> d;
    const Vec<T> s = Logistic<T>(x).value;
    return hn::MulAdd(hn::Mul(x, s), hn::Sub(hn::Set(d, T(1)), s), s);
  }
};

// With u = sqrt(2 / pi) (x + 0.044715 x^3): x / 2 (1 + tanh(u)) = x logistic(2 u).
template <class T>
struct GeluTanh {
  static constexpr T kTwice = T(1.5957691216057307118), kCubic = T(0.044715);

  static HWY_INLINE Vec<T> inner(Vec<T> square, T cubic) {  // 2 sqrt(2 / pi) (1 + cubic x^2)
    const Tag<T> d;
    return hn::MulAdd(square, hn::Set(d, kTwice * cubic), hn::Set(d, kTwice));
  }
  static HWY_INLINE Vec<T> value(Vec<T> x) {
    return hn::Mul(x, Logistic<T>(hn::Mul(x, inner(hn::Mul(x, x), kCubic))).value);
  }
  // logistic(2 u) + x logistic'(2 u) (2 u)'
  static HWY_INLINE Vec<T> derivative(Vec<T> x) {
    const Tag<T> d;
    const Vec<T> square = hn::Mul(x, x), none = hn::Zero(d);
    const Logistic<T> s(hn::Mul(x, inner(square, kCubic)));
    const Vec<T> rest = hn::Mul(x, hn::Mul(s.slope, inner(square, 3 * kCubic)));
    return hn::Add(s.value, hn::IfThenElse(hn::Eq(s.slope, none), none, rest));  // not 0 * infinity
  }
};

// to[i] = function(x[i], to[i]), element by element.
template <class T, class Function>
HWY_INLINE void apply(Function function, const T* x, T* to, std::int64_t count) {
  const Tag<T> d;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    hn::StoreU(function(hn::LoadU(d, x + i), hn::LoadU(d, to + i)), d, to + i);
  }
  if (i == count) return;
  HWY_ALIGN T rest[2][kLanes<T>] = {};
  for (std::int64_t j = i; j < count; ++j) {
    rest[0][j - i] = x[j];
    rest[1][j - i] = to[j];
  }
  hn::Store(function(hn::Load(d, rest[0]), hn::Load(d, rest[1])), d, rest[1]);
  for (std::int64_t j = i; j < count; ++j) to[j] = rest[1][j - i];
}

template <class Function, class T>
void activate_typed(T* x, std::int64_t count) {
  apply([](Vec<T> v, Vec<T>) HWY_ATTR { return Function::value(v); }, x, x, count);
}

template <class Function, class T>
void activate_backward_typed(const T* x, T* gradient, std::int64_t count) {
  apply([](Vec<T> v, Vec<T> g) HWY_ATTR { return hn::Mul(g, Function::derivative(v)); }, x, gradient, count);
}

template <class T>
void activate_any(Activation activation, T* x, std::int64_t count) {
  switch (activation) {
    case Activation::gelu:
      return activate_typed<Gelu<T>>(x, count);
    case Activation::gelu_tanh:
      return activate_typed<GeluTanh<T>>(x, count);
    case Activation::relu:
      return activate_typed<Relu<T>>(x, count);
    case Activation::silu:
      return activate_typed<Silu<T>>(x, count);
  }
}

template <class T>
void activate_backward_any(Activation activation, const T* x, T* gradient, std::int64_t count) {
  switch (activation) {
    case Activation::gelu:
      return activate_backward_typed<Gelu<T>>(x, gradient, count);
    case Activation::gelu_tanh:
      return activate_backward_typed<GeluTanh<T>>(x, gradient, count);
    case Activation::relu:
      return activate_backward_typed<Relu<T>>(x, gradient, count);
    case Activation::silu:
      return activate_backward_typed<Silu<T>>(x, gradient, count);
  }
}

void multiply_f32(float* x, const float* factor, std::int64_t count) {
  apply([](Vec<float> f, Vec<float> v) HWY_ATTR { return hn::Mul(v, f); }, factor, x, count);
}
void activate_f32(Activation activation, float* x, std::int64_t count) { activate_any(activation, x, count); }
void activate_f64(Activation activation, double* x, std::int64_t count) { activate_any(activation, x, count); }
void activate_backward_f32(Activation activation, const float* x, float* gradient, std::int64_t count) {
  activate_backward_any(activation, x, gradient, count);
}
void activate_backward_f64(Activation activation, const double* x, double* gradient, std::int64_t count) {
  activate_backward_any(activation, x, gradient, count);
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(multiply_f32);
HWY_EXPORT(activate_f32);
HWY_EXPORT(activate_f64);
HWY_EXPORT(activate_backward_f32);
HWY_EXPORT(activate_backward_f64);

}  // namespace

void multiply_elements(float* x, const float* factor, std::int64_t count) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(multiply_f32)(x, factor, count);
}

void activate(Activation activation, float* x, std::int64_t count) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(activate_f32)(activation, x, count);
}

void activate(Activation activation, double* x, std::int64_t count) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(activate_f64)(activation, x, count);
}

void activate_backward(Activation activation, const float* x, float* gradient, std::int64_t count) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(activate_backward_f32)(activation, x, gradient, count);
}

void activate_backward(Activation activation, const double* x, double* gradient, std::int64_t count) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(activate_backward_f64)(activation, x, gradient, count);
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
