// Products of the single queries of a group of heads with a few keys. Included once per CPU target.

#if defined(QKV_ATTENTION_SINGLE_QUERY_QUERY_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_SINGLE_QUERY_QUERY_DOTS_INL_H_
#undef QKV_ATTENTION_SINGLE_QUERY_QUERY_DOTS_INL_H_
#else
#define QKV_ATTENTION_SINGLE_QUERY_QUERY_DOTS_INL_H_
#endif

#include <algorithm>

#include "attention/tile/attention_task.h"
#include "simd/bf16_products-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Heads that share a key in registers. Rows are read one after the other: side by side they would hide from the
// processor that memory is read in order (1.6 times the time, in f32 from memory).
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kHeadTile = 4;
#else
inline constexpr int kHeadTile = 2;
#endif
inline constexpr int kKeyTile = 4;  // keys whose sums are finished together
// Of these, how many are read side by side, so that their sums stay in registers.
template <class T, class S>
inline constexpr int kKeysAbreast = sizeof(S) == 2 ? HWY_MAX(1, kKeyTile / kSumVectors<T>) : 1;

#if HWY_TARGET != HWY_SCALAR
// Lanes of two vectors, added by pairs and mixed: halves of `tag`'s width from the one and the other.
template <class T, class D>
HWY_INLINE Vec<T> join(D tag, Vec<T> a, Vec<T> b) {
  const Tag<T> d;
  const auto x = hn::BitCast(tag, a), y = hn::BitCast(tag, b);
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(tag, x, y)), hn::BitCast(d, hn::InterleaveUpper(tag, x, y)));
}

// The upper halves of two vectors added to the lower ones, those of a in front.
template <class T>
HWY_INLINE Vec<T> join_halves(Vec<T> a, Vec<T> b) {
  const Tag<T> d;
  return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
}
#endif

// to[j] = the sum of sum[j]'s lanes, as LaneSums::total() adds them up: a third of the work of one sum after the other.
template <class T>
HWY_INLINE void store_sums(const Vec<T> (&sum)[kKeyTile], T* to) {
  [[maybe_unused]] const Tag<T> d;
#if HWY_TARGET == HWY_AVX3
  const Vec<T> ab = join_halves<T>(sum[0], sum[1]), cd = join_halves<T>(sum[2], sum[3]);
  if constexpr (sizeof(T) == 4) {
    const Vec<T> evens{_mm512_shuffle_f32x4(ab.raw, cd.raw, 0x88)}, odds{_mm512_shuffle_f32x4(ab.raw, cd.raw, 0xdd)};
    Vec<T> all = hn::Add(evens, odds);
    all = hn::Add(all, hn::Shuffle1032(all));
    all = hn::Add(all, hn::Shuffle2301(all));
    const __m512i firsts = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    _mm_store_ps(to, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, all.raw)));
  } else {
    const Vec<T> evens{_mm512_shuffle_f64x2(ab.raw, cd.raw, 0x88)}, odds{_mm512_shuffle_f64x2(ab.raw, cd.raw, 0xdd)};
    Vec<T> all = hn::Add(evens, odds);
    all = hn::Add(all, hn::Shuffle01(all));
    const __m512i firsts = _mm512_castsi256_si512(_mm256_setr_epi64x(0, 2, 4, 6));
    _mm256_store_pd(to, _mm512_castpd512_pd256(_mm512_permutexvar_pd(firsts, all.raw)));
  }
#elif HWY_TARGET == HWY_AVX2
  const hn::Half<Tag<T>> half;
  Vec<T> all = join<T>(d, join_halves<T>(sum[0], sum[1]), join_halves<T>(sum[2], sum[3]));
  if constexpr (sizeof(T) == 4) all = hn::Add(all, hn::Shuffle1032(all));
  const auto low = hn::LowerHalf(half, all), high = hn::UpperHalf(half, all);
  hn::Store(hn::InterleaveLower(half, low, high), half, to);
  if constexpr (sizeof(T) == 8) hn::Store(hn::InterleaveUpper(half, low, high), half, to + 2);
#elif HWY_TARGET != HWY_SCALAR
  const Vec<T> low = join<T>(d, sum[0], sum[1]), high = join<T>(d, sum[2], sum[3]);
  if constexpr (sizeof(T) == 8) {
    hn::Store(low, d, to);
    hn::Store(high, d, to + 2);
  } else {
    hn::Store(join<T>(hn::RepartitionToWide<Tag<T>>(), low, high), d, to);
  }
#else
  for (int j = 0; j < kKeyTile; ++j) to[j] = hn::GetLane(sum[j]);
#endif
}

// logits[h][j] = queries[h] . keys[j]; one order of additions per pair, whatever the tile. Queries have zeros up to
// whole lanes of sums.
template <int kKeys, int kHeads, class T, class S>
HWY_INLINE void dot_tile(const S* HWY_RESTRICT keys, std::int64_t step, const T* HWY_RESTRICT queries,
                         std::int64_t query_step, std::int64_t size, T* HWY_RESTRICT logits) {
  const Tag<T> d;
  Vec<T> sum[kHeads][kKeyTile];
  QKV_UNROLL for (int h = 0; h < kHeads; ++h) { QKV_UNROLL for (int j = 0; j < kKeyTile; ++j) sum[h][j] = hn::Zero(d); }
  constexpr int kAbreast = std::min(kKeys, kKeysAbreast<T, S>);
  QKV_UNROLL for (int j = 0; j < kKeys; j += kAbreast) {
    LaneSums<T> sums[kHeads][kAbreast];
    for_each_vector<T>(size, [&](int v, std::int64_t e, auto lanes) HWY_ATTR {
      Vec<T> key[kAbreast];
      QKV_UNROLL for (int i = 0; i < kAbreast; ++i) key[i] = load_lanes_as<T>(lanes, keys + (j + i) * step + e);
      QKV_UNROLL for (int h = 0; h < kHeads; ++h) {
        const Vec<T> query = hn::Load(d, queries + h * query_step + e);
        QKV_UNROLL for (int i = 0; i < kAbreast; ++i) sums[h][i].multiply_add(v, key[i], query);
      }
    });
    QKV_UNROLL for (int h = 0; h < kHeads; ++h) {
      QKV_UNROLL for (int i = 0; i < kAbreast; ++i) sum[h][j + i] = sums[h][i].folded();
    }
  }
  QKV_UNROLL for (int h = 0; h < kHeads; ++h) {
    HWY_ALIGN T totals[kKeyTile];
    store_sums<T>(sum[h], totals);
    QKV_UNROLL for (int j = 0; j < kKeys; ++j) logits[h * kChunkKeys + j] = totals[j];
  }
}

#if HWY_TARGET == HWY_AVX3

// The same of bf16 in pairs, by PairStep of bf16_products-inl.h; queries are words, with zeros up to whole vectors. A
// lane adds up every 16th pair. Returns whether |x| is 0 or at least 2^-55 for all of the keys' elements.
template <int kKeys, int kHeads, class PairStep>
HWY_INLINE bool dot_pairs(const BFloat16* HWY_RESTRICT keys, std::int64_t step, const float* HWY_RESTRICT queries,
                          std::int64_t query_step, std::int64_t size, float* HWY_RESTRICT logits) {
  const Tag<float> d;
  const hn::Repartition<std::uint16_t, Tag<float>> halves;
  constexpr std::int64_t kElements = 2 * kLanes<float>;
  constexpr std::uint16_t kLeast = 2 * ((127 - 55) << 7);  // twice the bits, so that the sign is gone
  const auto one = hn::Set(halves, 1);
  auto least = hn::Set(halves, 0xffff);
  Vec<float> sum[kHeads][kKeyTile];
  QKV_UNROLL for (int h = 0; h < kHeads; ++h) { QKV_UNROLL for (int j = 0; j < kKeyTile; ++j) sum[h][j] = hn::Zero(d); }
  const auto add = [&](std::int64_t e, const auto& load) {
    Vec<float> key[kKeys];
    QKV_UNROLL for (int j = 0; j < kKeys; ++j) {
      const auto words = load(reinterpret_cast<const std::uint16_t*>(keys + j * step + e));
      least = hn::Min(least, hn::Sub(hn::Add(words, words), one));  // less 1, so that 0 is the largest
      key[j] = hn::BitCast(d, words);
    }
    QKV_UNROLL for (int h = 0; h < kHeads; ++h) {
      const Vec<float> query = hn::Load(d, queries + h * query_step + e / 2);
      QKV_UNROLL for (int j = 0; j < kKeys; ++j) sum[h][j] = PairStep::apply(key[j], query, sum[h][j]);
    }
  };
  std::int64_t e = 0;
  for (; e + kElements <= size; e += kElements)
    add(e, [&](const std::uint16_t* row) { return hn::LoadU(halves, row); });
  if (e < size) {
    const auto present = hn::FirstN(halves, static_cast<std::size_t>(size - e));
    add(e, [&](const std::uint16_t* row) { return hn::MaskedLoad(present, halves, row); });
  }
  QKV_UNROLL for (int h = 0; h < kHeads; ++h) {
    HWY_ALIGN float totals[kKeyTile];
    store_sums<float>(sum[h], totals);
    QKV_UNROLL for (int j = 0; j < kKeys; ++j) logits[h * kChunkKeys + j] = totals[j];
  }
  const auto bound = hn::Set(halves, kLeast - 1);
  return hn::AllTrue(halves, hn::Eq(hn::Min(least, bound), bound));
}

#endif  // HWY_AVX3

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
