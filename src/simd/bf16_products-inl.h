// Words of two neighbouring bf16, the lower one in the lower half, and their products. Included once per CPU target.

#if defined(QKV_SIMD_BF16_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_BF16_PRODUCTS_INL_H_
#undef QKV_SIMD_BF16_PRODUCTS_INL_H_
#else
#define QKV_SIMD_BF16_PRODUCTS_INL_H_
#endif

#include <cstring>

#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// sum + left . right of the pairs in each lane: the upper product first, each added with one rounding.
struct MultiplyPairsInF32 {
  static HWY_INLINE Vec<float> apply(Vec<float> left, Vec<float> right, Vec<float> sum) {
    sum = hn::MulAdd(upper(left), upper(right), sum);
    return hn::MulAdd(lower(left), lower(right), sum);
  }

 private:
  using Bits = hn::RebindToUnsigned<Tag<float>>;
  static HWY_INLINE Vec<float> upper(Vec<float> pairs) {
    return hn::And(pairs, hn::BitCast(Tag<float>(), hn::Set(Bits(), 0xffff0000u)));
  }
  static HWY_INLINE Vec<float> lower(Vec<float> pairs) {
    return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(hn::BitCast(Bits(), pairs)));
  }
};

#if HWY_TARGET == HWY_AVX3

// Instructions of AVX512-BF16, named to the assembler: Highway 1.0.3 has no target with them, and intrinsics would have
// to stay out of every function of a lesser one. Subnormal operands and results count as 0.

// The same in one (VDPBF16PS).
struct MultiplyPairs {
  static HWY_INLINE Vec<float> apply(Vec<float> left, Vec<float> right, Vec<float> sum) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(left.raw), "v"(right.raw));
    return sum;
  }
};

// The lanes of `low`, then those of `high`, rounded to nearest, ties to even.
HWY_INLINE __m512i round_to_bf16(Vec<float> low, Vec<float> high) {
  __m512i halves;
  __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(high.raw), "v"(low.raw));
  return halves;
}

alignas(64) inline constexpr std::uint16_t kPairLanes[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};

// Lane i of both becomes pair i.
HWY_INLINE Vec<float> to_pairs(Vec<float> low, Vec<float> high) {
  const __m512i lanes = _mm512_load_si512(kPairLanes);
  return Vec<float>{_mm512_castsi512_ps(_mm512_permutexvar_epi16(lanes, round_to_bf16(low, high)))};
}

#endif  // HWY_AVX3

// Floats that hold bf16 as pairs.
HWY_INLINE Vec<float> pair_floats(Vec<float> low, Vec<float> high) {
  const hn::RebindToUnsigned<Tag<float>> bits;
  const auto upper = hn::And(hn::BitCast(bits, high), hn::Set(bits, 0xffff0000u));
  return hn::BitCast(Tag<float>(), hn::Or(hn::ShiftRight<16>(hn::BitCast(bits, low)), upper));
}

// Numbers are ordinary if they are 0 or 2^-55 <= |x| < 2^40, multiples of 2^-62: their products, and sums of these in
// f32, are multiples of 2^-124, so that none is subnormal, and none overflows.
HWY_INLINE bool are_ordinary(Vec<float> pairs) {
  const hn::RebindToSigned<Tag<float>> d;
  constexpr std::int32_t kLeast = (127 - 55) << 7, kEnd = (127 + 40) << 7;  // as bits
  const auto are_in_range = [d](auto size) {
    const auto in_range = hn::And(hn::Gt(size, hn::Set(d, kLeast - 1)), hn::Lt(size, hn::Set(d, kEnd)));
    return hn::Or(in_range, hn::Eq(size, hn::Zero(d)));
  };
  const auto bits = hn::BitCast(d, pairs), mask = hn::Set(d, 0x7fff);
  return hn::AllTrue(d,
                     hn::And(are_in_range(hn::And(bits, mask)), are_in_range(hn::And(hn::ShiftRight<16>(bits), mask))));
}

// A row of pairs.
HWY_INLINE bool is_ordinary_row(const float* pairs, std::int64_t words) {
  const Tag<float> d;
  bool ordinary = true;
  std::int64_t i = 0;
  for (; i + kLanes<float> <= words; i += kLanes<float>) ordinary = ordinary && are_ordinary(hn::LoadU(d, pairs + i));
  if (i == words) return ordinary;
  HWY_ALIGN float rest[kLanes<float>] = {};
  std::memcpy(rest, pairs + i, sizeof(float) * static_cast<std::size_t>(words - i));
  return ordinary && are_ordinary(hn::Load(d, rest));
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
