// Words of two neighbouring bf16, which AVX512-BF16 and AMX multiply at once, made of floats, and what is the same for
// the products of both. Included once per CPU target, of which only AVX-512 has them.

#if defined(QKV_ATTENTION_TILE_BF16_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_BF16_PAIRS_INL_H_
#undef QKV_ATTENTION_TILE_BF16_PAIRS_INL_H_
#else
#define QKV_ATTENTION_TILE_BF16_PAIRS_INL_H_
#endif

#include <cstring>

#include "attention/tile/attention_task.h"
#include "attention/tile/held_blocks-inl.h"
#include "attention/tile/softmax_state-inl.h"
#include "simd/bf16_products-inl.h"
#include "simd/rows-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// The first `count` elements, at most a vector, then zeros.
template <class S>
HWY_INLINE Vec<float> load_first(const S* from, std::int64_t count) {
  const Tag<float> d;
  if (HWY_LIKELY(count >= kLanes<float>)) return load_as(d, from);
  HWY_ALIGN float some[kLanes<float>] = {};
  for (std::int64_t i = 0; i < count; ++i) some[i] = static_cast<float>(from[i]);
  return hn::Load(d, some);
}

// to[i] = pairs of rows[2 i] and rows[2 i + 1], for `count` rows of kVectors vectors, kStride apart; an odd last row
// has -0 beside it. `to` may be `rows`.
template <int kVectors, int kStride = kVectors>
HWY_INLINE void pair_rows(const float* rows, std::int64_t count, float* to) {
  const Tag<float> d;
  constexpr int kColumns = kStride * kLanes<float>;
  for (std::int64_t i = 0; i < count; i += 2, to += kColumns) {
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      const float* low = rows + i * kColumns + c * kLanes<float>;
      const Vec<float> high = i + 1 < count ? hn::Load(d, low + kColumns) : hn::Set(d, -0.0f);
      hn::Store(to_pairs(hn::Load(d, low), high), d, to + c * kLanes<float>);
    }
  }
}

// A row of `size` elements becomes words of two neighbours; an odd last one has 0 beside it.
template <class S>
HWY_INLINE void pair_neighbours(const S* from, std::int64_t size, float* to) {
  const Tag<float> d;
  constexpr int kLoaded = 2 * kLanes<float>;
  for (; size >= kLoaded; size -= kLoaded, from += kLoaded, to += kLanes<float>) {
    const __m512i halves = round_to_bf16(load_as(d, from), load_as(d, from + kLanes<float>));
    hn::StoreU(Vec<float>{_mm512_castsi512_ps(halves)}, d, to);
  }
  if (size == 0) return;
  const std::int64_t first = HWY_MIN(size, kLanes<float>);
  const __m512i halves = round_to_bf16(load_first(from, first), load_first(from + first, size - first));
  HWY_ALIGN float words[kLanes<float>];
  _mm512_store_si512(words, halves);
  std::memcpy(to, words, sizeof(float) * static_cast<std::size_t>((size + 1) / 2));
}

// What both products in pairs share: keys and values are held as pairs, and weights are rounded to bf16 next. Own tells
// how many words hold a key.
template <class Own>
class PairsProduct {
 public:
  PairsProduct(const AttentionTask& task, std::size_t other_bytes, std::byte* memory)
      : held_(task, widths(task), other_bytes, memory) {}

  static std::size_t bytes(const AttentionTask& task, std::size_t other_bytes) {
    return HeldBlocks::bytes(task, widths(task), other_bytes);
  }

  static std::int64_t keys_held(const AttentionTask& task, std::size_t other_bytes) {
    return HeldBlocks::keys(task, widths(task), other_bytes);
  }

  template <Unit kUnit, class T>
  static HWY_INLINE Vec<float> weight(Vec<float> x) {
    if constexpr (kUnit == Unit::natural) x = hn::Mul(x, hn::Set(Tag<float>(), static_cast<float>(kLog2E)));
    return exp2_coarse(x);
  }

 protected:
  HeldBlocks held_;

 private:
  static HeldBlocks::Widths widths(const AttentionTask& task) {
    return {Own::words(task.common->key_dim), whole_vectors<float>(task.common->value_dim) / 2};
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_AVX3

#endif  // per-target include guard
