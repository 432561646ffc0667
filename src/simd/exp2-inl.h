// 2^x over vectors. Error in ULP: f32 0.98 (all inputs), f64 about 0.6; 1.2 without fused multiply-add. exp2(0) is 1,
// NaN stays NaN, results below the smallest normal number are 0: weights that small do not matter, and subnormal
// operands are slow on some CPUs. For x <= 127. Included once per CPU target.

#if defined(QKV_SIMD_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_EXP2_INL_H_
#undef QKV_SIMD_EXP2_INL_H_
#else
#define QKV_SIMD_EXP2_INL_H_
#endif

#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// 2^f = 1 + c1 f + c2 f^2 + ... for |f| <= 1/2, relative error 2.0e-9 (f32) and 3.5e-18 (f64): least maximum, found by
// Lawson's iteration with the constant term held at 1.
template <class T>
HWY_INLINE Vec<T> exp2_fraction(Vec<T> f);

template <>
HWY_INLINE Vec<float> exp2_fraction<float>(Vec<float> f) {
  const Tag<float> d;
  Vec<float> y = hn::Set(d, 0x1.41fbbcp-13f);
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.5f3e54p-10f));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.3b2d4cp-7f));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.c6aee8p-5f));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.ebfbdcp-3f));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.62e430p-1f));
  return hn::MulAdd(y, f, hn::Set(d, 1.0f));
}

template <>
HWY_INLINE Vec<double> exp2_fraction<double>(Vec<double> f) {
  const Tag<double> d;
  Vec<double> y = hn::Set(d, 0x1.e794c6a9cbb6dp-32);
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.e61b3feed65f1p-28));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.b5268136504cap-24));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.62bfc7a6a237dp-20));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.ffcbfba78f1ebp-17));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.4309130ed4f44p-13));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.5d87fe78cdcc4p-10));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.3b2ab6fba012dp-7));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.c6b08d7049fe6p-5));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.ebfbdff82c5a4p-3));
  y = hn::MulAdd(y, f, hn::Set(d, 0x1.62e42fefa39efp-1));
  return hn::MulAdd(y, f, hn::Set(d, 1.0));
}

// The smallest exponent whose power is a normal number.
template <class T>
inline constexpr T kLeastExponent = sizeof(T) == 4 ? T(-126) : T(-1022);

#if HWY_TARGET == HWY_AVX3
// The floats 2^(j/16) as words, less j << 19.
alignas(64) inline constexpr std::uint32_t kSixteenthPowers[16] = {
    0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3, 0x3f7837f0, 0x3f76f532, 0x3f75fed7, 0x3f75583f,
    0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c, 0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};

// x is n + rest with n in whole sixteenths, |rest| <= 1/32, and power is 2^n. 16 n is in the low bits of `shifted`:
// the last four choose 2^(n - floor(n)) from a table in a register, and all of them, shifted into the exponent,
// complete it to 2^n. Half as many multiplications as a polynomial for |rest| <= 1/2.
struct Sixteenths {
  HWY_INLINE explicit Sixteenths(Vec<float> x) {
    const Vec<float> magic = hn::Set(Tag<float>(), 0x1.8p19f), shifted = hn::Add(x, magic);
    rest = hn::Sub(x, hn::Sub(shifted, magic));
    const __m512i sixteenths = _mm512_castps_si512(shifted.raw);
    const __m512i root = _mm512_permutexvar_epi32(sixteenths, _mm512_load_si512(kSixteenthPowers));
    power = Vec<float>{_mm512_castsi512_ps(_mm512_add_epi32(root, _mm512_slli_epi32(sixteenths, 19)))};
    stays = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(kLeastExponent<float>), _CMP_NLT_UQ);
  }

  // power * (1 + growth), or 0 where x is below the least exponent.
  HWY_INLINE Vec<float> grown_by(Vec<float> growth) const {
    return Vec<float>{_mm512_maskz_fmadd_ps(stays, power.raw, growth.raw, power.raw)};
  }

  Vec<float> power, rest;
  __mmask16 stays;
};

// 2^x for weights that are rounded to bf16 next: relative error 2^-12, a sixteenth of that rounding.
HWY_INLINE Vec<float> exp2_coarse(Vec<float> x) {
  const Sixteenths parts(x);
  return parts.grown_by(hn::Mul(parts.rest, hn::Set(Tag<float>(), 0x1.62e430p-1f)));
}
#endif

template <class T>
HWY_INLINE Vec<T> exp2(Vec<T> x) {
  const Tag<T> d;
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4) {
    const Sixteenths parts(x);
    const Vec<T> f = parts.rest;
    const Vec<T> slope = hn::MulAdd(f, hn::Set(d, 0x1.c6b08ep-5f), hn::Set(d, 0x1.ebfff4p-3f));
    return parts.grown_by(hn::Mul(hn::MulAdd(slope, f, hn::Set(d, 0x1.62e430p-1f)), f));
  } else {
    const Vec<T> least = hn::Set(d, kLeastExponent<T>);
    // reduce leaves x - round(x); scalef multiplies by 2^floor of its second operand, and gives 0 outside its mask.
    const Vec<T> f{_mm512_reduce_pd(x.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
    const __mmask8 stays = _mm512_cmp_pd_mask(x.raw, least.raw, _CMP_NLT_UQ);
    return Vec<T>{_mm512_maskz_scalef_pd(stays, exp2_fraction<T>(f).raw, hn::Sub(x, f).raw)};
  }
#else
  // Adding 1.5 * 2^mantissa rounds to an integer and leaves it in the low bits; the exponent's bias is added with it.
  // A NaN stays one in the product, whatever its bits make of the power.
  using Bits = hn::RebindToSigned<Tag<T> >;
  constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
  const Vec<T> magic = hn::Set(d, T(1.5) * T(std::uint64_t{1} << kMantissa) + (T(1) - kLeastExponent<T>));
  const Vec<T> shifted = hn::Add(x, magic);
  const Vec<T> y = exp2_fraction<T>(hn::Sub(x, hn::Sub(shifted, magic)));
  const Vec<T> power = hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::BitCast(Bits(), shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kLeastExponent<T>)), hn::Mul(y, power));
#endif
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
