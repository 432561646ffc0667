// 2^x over vectors. Error in ULP: f32 0.9 (all inputs), f64 about 0.6, 1.2 without fused multiply-add. exp2(0) is 1,
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

// 2^f = 1 + c1 f + c2 f^2 + ... for |f| <= 1/2, relative error 3.5e-18: least maximum, found by Lawson's iteration with
// the constant term held at 1.
HWY_INLINE Vec<double> exp2_fraction(Vec<double> f) {
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

// The floats 2^(j/4) as words, less j << 21.
alignas(16) inline constexpr std::uint32_t kQuarterPowers[4] = {0x3f800000, 0x3f7837f0, 0x3f7504f3, 0x3f7744fd};

// Word j of the four for each lane of words whose last two bits are j.
template <class V>
HWY_INLINE V quarter_powers(V words) {
#if HWY_TARGET == HWY_AVX3
  const __m512 table = _mm512_broadcast_f32x4(_mm_load_ps(reinterpret_cast<const float*>(kQuarterPowers)));
  return V{_mm512_castps_si512(_mm512_permutevar_ps(table, words.raw))};
#elif HWY_TARGET == HWY_AVX2
  const __m256 table = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(kQuarterPowers));
  return V{_mm256_castps_si256(_mm256_permutevar_ps(table, words.raw))};
#elif HWY_TARGET == HWY_SCALAR
  return hn::Set(hn::RebindToSigned<Tag<float>>(), static_cast<std::int32_t>(kQuarterPowers[hn::GetLane(words) & 3]));
#else
  // As bytes: 4 j + 0, 1, 2 and 3, of j four times.
  const hn::RebindToSigned<Tag<float>> d;
  const hn::Repartition<std::uint8_t, decltype(d)> bytes;
  alignas(16) static constexpr std::uint8_t kFirsts[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
  const auto j = hn::TableLookupBytes(hn::BitCast(bytes, hn::And(words, hn::Set(d, 3))), hn::Load(bytes, kFirsts));
  const auto places = hn::Add(hn::ShiftLeft<2>(hn::BitCast(d, j)), hn::Set(d, 0x03020100));
  const auto table = hn::Load(bytes, reinterpret_cast<const std::uint8_t*>(kQuarterPowers));
  return hn::BitCast(d, hn::TableLookupBytes(table, hn::BitCast(bytes, places)));
#endif
}

// x is n + rest with n in whole quarters, |rest| <= 1/8, and power is 2^n. 4 n is in the low bits of `shifted`: the
// last two choose 2^(n - floor(n)), and all of them, shifted into the exponent, complete it to 2^n.
struct Quarters {
  HWY_INLINE explicit Quarters(Vec<float> exponent) : x(exponent) {
    const Tag<float> d;
    const hn::RebindToSigned<Tag<float>> words;
    const Vec<float> magic = hn::Set(d, 0x1.8p21f), shifted = hn::Add(x, magic);
    rest = hn::Sub(x, hn::Sub(shifted, magic));
    const auto quarters = hn::BitCast(words, shifted);
    power = hn::BitCast(d, hn::Add(quarter_powers(quarters), hn::ShiftLeft<21>(quarters)));
  }

  // power * (1 + growth), or 0 where x is below the least exponent.
  HWY_INLINE Vec<float> grown_by(Vec<float> growth) const {
    const Vec<float> least = hn::Set(Tag<float>(), kLeastExponent<float>);
#if HWY_TARGET == HWY_AVX3
    const __mmask16 stays = _mm512_cmp_ps_mask(x.raw, least.raw, _CMP_NLT_UQ);
    return Vec<float>{_mm512_maskz_fmadd_ps(stays, power.raw, growth.raw, power.raw)};
#else
    return hn::IfThenZeroElse(hn::Lt(x, least), hn::MulAdd(power, growth, power));
#endif
  }

  Vec<float> x, power, rest;
};

// 2^rest - 1 for |rest| <= 1/8, relative to 2^rest within 5.4e-9: least maximum, by Lawson's iteration, each
// coefficient rounded before the next ones are found.
HWY_INLINE Vec<float> growth_of_quarter(Vec<float> rest) {
  const Tag<float> d;
  Vec<float> y = hn::MulAdd(hn::Set(d, 0x1.3af6a4p-7f), rest, hn::Set(d, 0x1.c6d630p-5f));
  y = hn::MulAdd(y, rest, hn::Set(d, 0x1.ebfbeep-3f));
  return hn::Mul(hn::MulAdd(y, rest, hn::Set(d, 0x1.62e430p-1f)), rest);
}

// 2^x for weights that are rounded to bf16 next: relative error 2^-12, a sixteenth of that rounding.
HWY_INLINE Vec<float> exp2_coarse(Vec<float> x) {
  const Tag<float> d;
  const Quarters parts(x);
  const Vec<float> slope = hn::MulAdd(parts.rest, hn::Set(d, 0x1.ebfbeep-3f), hn::Set(d, 0x1.62e430p-1f));
  return parts.grown_by(hn::Mul(slope, parts.rest));
}

template <class T>
HWY_INLINE Vec<T> exp2(Vec<T> x) {
  if constexpr (sizeof(T) == 4) {
    const Quarters parts(x);
    return parts.grown_by(growth_of_quarter(parts.rest));
  } else {
    // Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits; the exponent's bias is added with it. A NaN
    // stays one in the product, whatever its bits make of the power.
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> words;
    const Vec<T> least = hn::Set(d, kLeastExponent<T>), magic = hn::Set(d, 0x1.8p52 + (1 - kLeastExponent<T>));
    const Vec<T> shifted = hn::Add(x, magic), y = exp2_fraction(hn::Sub(x, hn::Sub(shifted, magic)));
    const Vec<T> power = hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(words, shifted)));
    return hn::IfThenZeroElse(hn::Lt(x, least), hn::Mul(y, power));
  }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
