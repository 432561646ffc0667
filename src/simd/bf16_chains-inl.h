// Products of bf16 that are added up as TDPBF16PS does it (Intel 64 and IA-32 Software Developer's Manual), in floats.
// Included once per CPU target.

#if defined(QKV_SIMD_BF16_CHAINS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_BF16_CHAINS_INL_H_
#undef QKV_SIMD_BF16_CHAINS_INL_H_
#else
#define QKV_SIMD_BF16_CHAINS_INL_H_
#endif

#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Products that one instruction adds to a sum.
inline constexpr std::int64_t kChainDepth = 32;

// sum[r][c] += left[r][k] * right[k][c] for k < count, at most kChainDepth: the even ones from 0, the odd ones from 0,
// then both together. Factors are bf16; as in multiply_tile(). To be called while FlushSubnormals lives.
template <int kRows, int kVectors, class S>
HWY_INLINE void add_chains(const float* HWY_RESTRICT left, std::int64_t row_step, std::int64_t step,
                           const S* HWY_RESTRICT right, std::int64_t right_step, std::int64_t count,
                           Vec<float> (&sum)[kRows][kVectors]) {
  Vec<float> even[kRows][kVectors], odd[kRows][kVectors];
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) even[r][c] = odd[r][c] = hn::Zero(Tag<float>());
  }
  multiply_tile<kRows, kVectors>(left, row_step, 2 * step, right, 2 * right_step, (count + 1) / 2, even);
  multiply_tile<kRows, kVectors>(left + step, row_step, 2 * step, right + right_step, 2 * right_step, count / 2, odd);
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::Add(sum[r][c], hn::Add(even[r][c], odd[r][c]));
  }
}

// To the nearest bf16, ties to even; what is subnormal counts as 0, with its sign.
HWY_INLINE Vec<float> round_to_bf16(Vec<float> x) {
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float>> words;
  const auto bits = hn::BitCast(words, x);
  const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
  const auto rounded = hn::Add(bits, hn::Add(is_odd, hn::Set(words, 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(words, 0x400000u));  // of what is not a number
  const auto kept = hn::IfThenElse(hn::RebindMask(words, hn::Ne(x, x)), quiet, rounded);
  const auto mask = hn::IfThenElse(hn::RebindMask(words, hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-126f))),
                                   hn::Set(words, 0x80000000u), hn::Set(words, 0xffff0000u));
  return hn::BitCast(d, hn::And(kept, mask));
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
