// Sums of products of AMX tiles, and bf16 as tiles take them: words of two neighbours. Included once per CPU target, of
// which only AVX-512 has tiles.

#if defined(QKV_ATTENTION_TILE_TILE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_TILE_SUMS_INL_H_
#undef QKV_ATTENTION_TILE_TILE_SUMS_INL_H_
#else
#define QKV_ATTENTION_TILE_TILE_SUMS_INL_H_
#endif

#include <utility>

#include "attention/tile/attention_task.h"
#include "attention/tile/bf16_pairs-inl.h"
#include "attention/tile/tile_pieces.h"
#include "simd/amx_tiles.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline constexpr int kTileSide = 16;                           // rows of a tile, and its words
inline constexpr std::int64_t kTileGroupKeys = 2 * kTileSide;  // keys that are multiplied at once

struct HardwareTiles {
  template <int kTile>
  static HWY_INLINE void clear() {
    clear_tile<kTile>();
  }
  template <int kTile>
  static HWY_INLINE void load(const float* from, std::int64_t step) {
    load_tile<kTile>(from, step);
  }
  template <int kTile>
  static HWY_INLINE void store(float* to, std::int64_t step) {
    store_tile<kTile>(to, step);
  }
  template <int kSum, int kLeft, int kRight>
  static HWY_INLINE void multiply() {
    multiply_tiles<kSum, kLeft, kRight>();
  }
  // Lanes of `low`, then those of `high`, to the nearest bf16.
  static HWY_INLINE __m512i round(Vec<float> low, Vec<float> high) { return round_to_bf16(low, high); }
};

// Sums of kRowTiles by kVectors tiles, and one tile for each operand. Tiles: HardwareTiles, or what emulates them.
template <class Tiles, int kRowTiles, int kVectors>
struct TileSums {
  static constexpr int kLeft = kRowTiles * kVectors, kRight = kLeft + 1;
  static_assert(kRight < 8);

  static HWY_INLINE void clear() { clear_all(All()); }

  // Tiles of rows `step` floats apart.
  static HWY_INLINE void load(const float* from, std::int64_t step) { load_all(All(), from, step); }
  static HWY_INLINE void store(float* to, std::int64_t step) { store_all(All(), to, step); }

  // Adds the products of 16 words: left tiles [row][word], one after the other, by right ones [word][column].
  static HWY_INLINE void multiply(const float* left, const float* right, std::int64_t right_step) {
    multiply_all(All(), left, right, right_step);
  }

 private:
  // Functions, not lambdas: GCC would keep what these capture in memory.
  using All = std::make_integer_sequence<int, kLeft>;
  template <int... kSum>
  using Sums = std::integer_sequence<int, kSum...>;

  // Where tile `sum` begins.
  static constexpr std::int64_t place(int sum, std::int64_t step) {
    return sum / kVectors * kTileSide * step + sum % kVectors * kTileSide;
  }

  template <int... kSum>
  static HWY_INLINE void clear_all(Sums<kSum...>) {
    (Tiles::template clear<kSum>(), ...);
  }
  template <int... kSum>
  static HWY_INLINE void load_all(Sums<kSum...>, const float* from, std::int64_t step) {
    (Tiles::template load<kSum>(from + place(kSum, step), step), ...);
  }
  template <int... kSum>
  static HWY_INLINE void store_all(Sums<kSum...>, float* to, std::int64_t step) {
    (Tiles::template store<kSum>(to + place(kSum, step), step), ...);
  }
  template <int... kSum>
  static HWY_INLINE void multiply_all(Sums<kSum...>, const float* left, const float* right, std::int64_t right_step) {
    (multiply_one<kSum>(left, right, right_step), ...);
  }
  template <int kSum>
  static HWY_INLINE void multiply_one(const float* left, const float* right, std::int64_t right_step) {
    if constexpr (kSum % kVectors == 0) {
      Tiles::template load<kLeft>(left + kSum / kVectors * kTileSide * kTileSide, kTileSide);
    }
    Tiles::template load<kRight>(right + kSum % kVectors * kTileSide, right_step);
    Tiles::template multiply<kSum, kLeft, kRight>();
  }
};

// The bf16 of `halves`, those of the low lanes or of the high ones of round_to_bf16(), as floats.
HWY_INLINE Vec<float> widen_low(__m512i halves) {
  return Vec<float>{_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(halves)), 16))};
}
HWY_INLINE Vec<float> widen_high(__m512i halves) {
  return widen_low(_mm512_castsi256_si512(_mm512_extracti64x4_epi64(halves, 1)));
}

// visit(p, halves) for pieces p = 0, 1 ... of two vectors: each the nearest bf16 of what those before it leave.
template <class Tiles, class Visit>
HWY_INLINE void cut(Vec<float> low, Vec<float> high, int pieces, const Visit& visit) {
  for (int p = 0;; ++p) {
    const __m512i halves = Tiles::round(low, high);
    visit(p, halves);
    if (p + 1 == pieces) return;
    low = hn::Sub(low, widen_low(halves));
    high = hn::Sub(high, widen_high(halves));
  }
}

// Floats that are bf16, subnormal ones, too, as round_to_bf16() lays them out.
HWY_INLINE __m512i upper_halves(Vec<float> low, Vec<float> high) {
  const auto narrow = [](Vec<float> x) {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x.raw), 16));
  };
  return _mm512_inserti64x4(_mm512_castsi256_si512(narrow(low)), narrow(high), 1);
}

// Lane i of the low half and lane i of the high one become pair i.
HWY_INLINE Vec<float> interleave(__m512i halves) {
  const __m512i lanes = _mm512_load_si512(kPairLanes);
  return Vec<float>{_mm512_castsi512_ps(_mm512_permutexvar_epi16(lanes, halves))};
}

// The lower, or the upper, bf16 of each word.
template <bool kUpper>
HWY_INLINE Vec<float> half_of(Vec<float> words) {
  const __m512i bits = _mm512_castps_si512(words.raw);
  if constexpr (kUpper) return Vec<float>{_mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(0xffff0000)))};
  return Vec<float>{_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
}

HWY_INLINE auto is_ordinary(Vec<float> x, OrdinaryNumbers numbers) {
  const Tag<float> d;
  const Vec<float> size = hn::Abs(x);
  const auto in_range = hn::And(hn::Ge(size, hn::Set(d, numbers.least)), hn::Lt(size, hn::Set(d, numbers.end)));
  return hn::Or(in_range, hn::Eq(x, hn::Zero(d)));
}

// Words of pairs of rows of a block's weights, from `row` on: pieces 0 and 1 lie where the rows lay, the third behind
// them all.
HWY_INLINE float* weight_words(float* weights, std::int64_t row, int piece, std::int64_t columns) {
  return weights + (piece < 2 ? row + piece : kBlockKeys + row / 2) * columns;
}
HWY_INLINE std::int64_t weight_step(int piece, std::int64_t columns) { return piece < 2 ? 2 * columns : columns; }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_AVX3

#endif  // per-target include guard
