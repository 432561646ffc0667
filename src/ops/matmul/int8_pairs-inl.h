// Sums of products of bytes, in pairs: what x86 has without AVX512-VNNI. Included once per CPU target.

#if defined(QKV_OPS_MATMUL_INT8_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_OPS_MATMUL_INT8_PAIRS_INL_H_
#undef QKV_OPS_MATMUL_INT8_PAIRS_INL_H_
#else
#define QKV_OPS_MATMUL_INT8_PAIRS_INL_H_
#endif

#include "simd/tile-inl.h"

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// The compiler keeps arrays of these in registers, those of Highway's vectors of whole numbers not.
using RawWhole = decltype(hn::Zero(hn::RebindToSigned<Tag<float>>()).raw);

// sum + four products of bytes, those of `left` without a sign, in each lane. Two of them must fit in 16 bits.
HWY_INLINE RawWhole add_pairs(RawWhole sum, RawWhole left, RawWhole right) {
#if HWY_TARGET == HWY_AVX3
  return _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(left, right), _mm512_set1_epi16(1)));
#elif HWY_TARGET == HWY_AVX2
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(left, right), _mm256_set1_epi16(1)));
#else
  return _mm_add_epi32(sum, _mm_madd_epi16(_mm_maddubs_epi16(left, right), _mm_set1_epi16(1)));
#endif
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

#endif  // per-target include guard
