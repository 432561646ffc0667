// Dropout of the weights of a single query: the bits of include/qkv/attention/dropout.h with vectors over keys.
// Included once per CPU target.

#if defined(QKV_ATTENTION_SINGLE_QUERY_DROPOUT_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_SINGLE_QUERY_DROPOUT_ROW_INL_H_
#undef QKV_ATTENTION_SINGLE_QUERY_DROPOUT_ROW_INL_H_
#else
#define QKV_ATTENTION_SINGLE_QUERY_DROPOUT_ROW_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "attention/tile/attention_task.h"
#include "core/dropout.h"
#include "simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// Lanes whose word of 16 bits is below the threshold.
template <class T>
HWY_INLINE auto are_below(const std::uint16_t* words, std::uint32_t threshold) {
  const hn::Rebind<std::uint16_t, Tag<T>> narrow;
  const hn::Rebind<std::int32_t, Tag<T>> wide;
  const auto below =
      hn::Lt(hn::PromoteTo(wide, hn::LoadU(narrow, words)), hn::Set(wide, static_cast<std::int32_t>(threshold)));
  if constexpr (sizeof(T) == 8) {
    const hn::RebindToSigned<Tag<T>> lanes;
    return hn::RebindMask(Tag<T>(), hn::MaskFromVec(hn::PromoteTo(lanes, hn::VecFromMask(wide, below))));
  } else {
    return hn::RebindMask(Tag<T>(), below);
  }
}
#endif

// weights[j] of keys chunk + j, whole vectors that hold first <= j < last: those that are dropped become 0, the others
// grow by 1 / rate. Products, so that -0, the mark of a hidden key, stays what it is.
template <class T>
HWY_NOINLINE void drop_row(const AttentionTask& task, std::int64_t chunk, std::int64_t first, std::int64_t last,
                           T* weights) {
  const DropoutRule& rule = task.common->dropout;
#if HWY_TARGET == HWY_SCALAR
  DropoutRow row(rule, task.sequence, task.head, /*query=*/0);
  for (std::int64_t j = first; j < last; ++j) weights[j] *= static_cast<T>(row.factor(chunk + j));
#else
  const Tag<T> d;
  const PhiloxCounters::D wide;
  constexpr std::int64_t kBlocks = static_cast<std::int64_t>(hn::MaxLanes(wide)), kWords = kBlocks * DropoutRule::kKeys;
  static_assert(kChunkKeys % kWords == 0 && kWords % kLanes<T> == 0);
  const Vec<T> factor = hn::Set(d, static_cast<T>(rule.factor));
  const std::int64_t end = whole_vectors<T>(last);
  for (std::int64_t at = first / kWords * kWords; at < end; at += kWords) {
    const auto block = static_cast<std::uint64_t>((chunk + at) / DropoutRule::kKeys);
    PhiloxCounters counters(hn::Iota(wide, block), hn::Zero(wide), hn::Set(wide, static_cast<std::uint32_t>(task.head)),
                            hn::Set(wide, static_cast<std::uint32_t>(task.sequence)));
    counters.run<DropoutRule::kRounds>(rule.seed);
    // A block's words, in the order of its keys.
    HWY_ALIGN std::uint64_t bits[2][kBlocks];
    for (int half = 0; half < 2; ++half) {
      const auto low = hn::And(counters.bits(2 * half), hn::Set(wide, 0xffffffff));
      hn::Store(hn::Or(low, hn::ShiftLeft<32>(counters.bits(2 * half + 1))), wide, bits[half]);
    }
    HWY_ALIGN std::uint16_t words[kWords];
    for (std::int64_t n = 0; n < kBlocks; ++n) {
      for (int half = 0; half < 2; ++half) std::memcpy(words + n * DropoutRule::kKeys + half * 4, &bits[half][n], 8);
    }
    for (std::int64_t j = std::max(at, first / kLanes<T> * kLanes<T>); j < std::min(at + kWords, end); j += kLanes<T>) {
      const auto kept = are_below<T>(words + (j - at), rule.threshold);
      hn::Store(hn::Mul(hn::Load(d, weights + j), hn::IfThenElseZero(kept, factor)), d, weights + j);
    }
  }
#endif
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
