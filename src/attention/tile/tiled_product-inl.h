// Both products of attention by the tiles of AMX: numbers in pieces of bf16, whose products f32 holds exactly. In place
// of exact_product-inl.h. Keys go in groups of 32, counted from the first, whose logits an instruction adds up at once;
// values in blocks of kBlockKeys, of which keys hidden from all queries have the weight -0. Included once per CPU
// target, of which only AVX-512 has tiles.

#if defined(QKV_ATTENTION_TILE_TILED_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_TILED_PRODUCT_INL_H_
#undef QKV_ATTENTION_TILE_TILED_PRODUCT_INL_H_
#else
#define QKV_ATTENTION_TILE_TILED_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <utility>

#include "attention/tile/attention_task.h"
#include "attention/tile/bf16_pairs-inl.h"
#include "attention/tile/held_blocks-inl.h"
#include "attention/tile/mended_values-inl.h"
#include "attention/tile/softmax_state-inl.h"
#include "attention/tile/tile_pieces.h"
#include "simd/amx_tiles.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline constexpr int kTileSide = 16;                           // rows of a tile, and its words
inline constexpr std::int64_t kTileGroupKeys = 2 * kTileSide;  // keys that are multiplied at once

struct HardwareTiles : Tiles {
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

HWY_INLINE Vec<float> half_of(Vec<float> words, bool upper) {
  return upper ? half_of<true>(words) : half_of<false>(words);
}

// Words of pairs of rows of a block's weights, from `row` on: pieces 0 and 1 lie where the rows lay, the third behind
// them all.
HWY_INLINE float* weight_words(float* weights, std::int64_t row, int piece, std::int64_t columns) {
  return weights + (piece < 2 ? row + piece : kBlockKeys + row / 2) * columns;
}
HWY_INLINE std::int64_t weight_step(int piece, std::int64_t columns) { return piece < 2 ? 2 * columns : columns; }

// What tiles would get wrong: the logits and outputs that depend on other than ordinary numbers, by vectors, over what
// tiles left. Which these are depends on a row's own query and on the keys that it sees.

// What pieces were cut from; of infinities, NaN and -0, the mark of a hidden key, the first piece tells.
HWY_INLINE Vec<float> join(Vec<float> sum, Vec<float> piece) {
  const Tag<float> d;
  const auto finite = hn::Lt(hn::Abs(sum), hn::Set(d, std::numeric_limits<float>::infinity()));
  return hn::IfThenElse(hn::And(finite, hn::Ne(piece, hn::Zero(d))), hn::Add(sum, piece), sum);
}

// The number that words hold in their lower or upper halves, their pieces `step` floats apart.
template <bool kUpper>
HWY_INLINE Vec<float> joined(const float* words, std::int64_t step, int pieces) {
  Vec<float> sum = half_of<kUpper>(hn::LoadU(Tag<float>(), words));
  for (int p = 1; p < pieces; ++p) sum = join(sum, half_of<kUpper>(hn::LoadU(Tag<float>(), words + p * step)));
  return sum;
}

// The logits [key][query] of a group that an odd query or key takes part in: products added up in f32, one after the
// other. `keys` and `queries` are `count` words of pieces.
template <int kVectors>
HWY_NOINLINE void mend_logits(const TilePieces& pieces, const float* keys, const float* queries, std::int64_t count,
                              float* to) {
  constexpr int kColumns = kVectors * kLanes<float>;
  const Tag<float> d;
  const auto word_of_queries = [&]<bool kUpper>(std::int64_t word, int c) {
    return joined<kUpper>(queries + word * pieces.inputs * kColumns + c * kLanes<float>, kColumns, pieces.inputs);
  };
  hn::Mask<Tag<float>> ordinary[kVectors];
  for (int c = 0; c < kVectors; ++c) {
    ordinary[c] = hn::Eq(hn::Zero(d), hn::Zero(d));
    for (std::int64_t word = 0; word < count; ++word) {
      const auto lower = is_ordinary(word_of_queries.template operator()<false>(word, c), pieces.keys);
      const auto upper = is_ordinary(word_of_queries.template operator()<true>(word, c), pieces.keys);
      ordinary[c] = hn::And(ordinary[c], hn::And(lower, upper));
    }
  }
  for (std::int64_t key = 0; key < kTileGroupKeys; ++key, to += kColumns) {
    const auto tile_of_key = [&](std::int64_t word) {
      return keys + (word * pieces.inputs * kTileGroupKeys) + key * kTileSide;
    };
    bool is_ordinary_key = true;
    Vec<float> sums[kVectors];
    for (int c = 0; c < kVectors; ++c) sums[c] = hn::Zero(d);
    for (std::int64_t word = 0; word < count; word += kTileSide) {
      const Vec<float> lower = joined<false>(tile_of_key(word), kTileGroupKeys * kTileSide, pieces.inputs),
                       upper = joined<true>(tile_of_key(word), kTileGroupKeys * kTileSide, pieces.inputs);
      is_ordinary_key =
          is_ordinary_key && hn::AllTrue(d, hn::And(is_ordinary(lower, pieces.keys), is_ordinary(upper, pieces.keys)));
      HWY_ALIGN float factors[2][kTileSide];
      hn::Store(lower, d, factors[0]);
      hn::Store(upper, d, factors[1]);
      for (int w = 0; w < kTileSide; ++w) {
        for (int c = 0; c < kVectors; ++c) {
          const Vec<float> low = word_of_queries.template operator()<false>(word + w, c),
                           high = word_of_queries.template operator()<true>(word + w, c);
          sums[c] = hn::MulAdd(low, hn::Set(d, factors[0][w]), sums[c]);
          sums[c] = hn::MulAdd(high, hn::Set(d, factors[1][w]), sums[c]);
        }
      }
    }
    for (int c = 0; c < kVectors; ++c) {
      float* at = to + c * kLanes<float>;
      hn::Store(is_ordinary_key ? hn::IfThenElse(ordinary[c], hn::Load(d, at), sums[c]) : sums[c], d, at);
    }
  }
}

// Instructions count subnormal numbers as 0. Ordinary numbers have no product and no sum that is subnormal or
// overflows; logits and outputs that depend on any other are computed by vectors, and no others are.
template <class Tiles>
class TiledProduct {
 public:
  // Keys of a group.
  static constexpr std::int64_t kGroupKeys = kTileGroupKeys;
  static constexpr bool kProjectsKeys = false;

  TiledProduct(const AttentionTask& task, std::size_t other_bytes, std::byte* memory)
      : pieces_(tile_pieces(task)), held_(task, widths(task), other_bytes, memory) {}

  static std::size_t bytes(const AttentionTask& task, std::size_t other_bytes) {
    return HeldBlocks::bytes(task, widths(task), other_bytes);
  }

  static std::int64_t keys_held(const AttentionTask& task, std::size_t other_bytes) {
    return HeldBlocks::keys(task, widths(task), other_bytes);
  }

  // Rows of a packed operand of `size` factors.
  static std::int64_t packed_rows(const AttentionTask& task, std::int64_t size) {
    return std::max(size, words_of_tiles(size) * tile_pieces(task).inputs);
  }

  // Rows that the weights of a block take.
  static std::int64_t weight_rows(const AttentionTask& task) {
    return kBlockKeys + kBlockKeys / 2 * std::max(tile_pieces(task).weights - 2, 0);
  }

  // Floats become words of pieces: row pieces * w + p is piece p of word w. Returns whether all are ordinary.
  template <int kVectors>
  bool pack(float* rows, std::int64_t size) const {
    constexpr int kColumns = kVectors * kLanes<float>;
    const Tag<float> d;
    bool ordinary = true;
    const auto pack_word = [&](std::int64_t word) {
      for (int c = 0; c < kColumns; c += kLanes<float>) {
        const auto row = [&](std::int64_t i) { return i < size ? hn::Load(d, rows + i * kColumns + c) : hn::Zero(d); };
        const Vec<float> low = row(2 * word), high = row(2 * word + 1);
        ordinary = ordinary && hn::AllTrue(d, hn::And(is_ordinary(low, pieces_.keys), is_ordinary(high, pieces_.keys)));
        cut_inputs(low, high, [&](int p, __m512i halves) {
          hn::Store(interleave(halves), d, rows + (pieces_.inputs * word + p) * kColumns + c);
        });
      }
    };
    for (std::int64_t word = 0; word < words_of_tiles(size); ++word) pack_word(word);
    return ordinary;
  }

  // to[key][query]: the products of a group of keys with packed queries.
  template <int kVectors>
  HWY_NOINLINE void multiply_keys(const AttentionTask& task, std::int64_t first, const float* queries,
                                  bool has_ordinary_queries, float* to) const {
    constexpr int kColumns = kVectors * kLanes<float>;
    using Sums = TileSums<Tiles, 2, kVectors>;
    const float* keys = held_.key_at(first, [&](std::int64_t begin, std::int64_t end, float* target) {
      hold(begin, convert_keys(task.key, begin, end, task.common->key_dim, target), /*shift=*/0);
    });
    const std::int64_t count = words_of_tiles(task.common->key_dim), step = pieces_.inputs * kColumns;
    Sums::clear();
    for (std::int64_t word = 0; word < count; word += kTileSide) {
      for (int a = pieces_.inputs - 1; a >= 0; --a) {
        for (int b = std::min(pieces_.key_order - a, pieces_.inputs - 1); b >= 0; --b) {
          Sums::multiply(keys + (word * pieces_.inputs + a * kTileSide) * kGroupKeys,
                         queries + word * step + b * kColumns, step);
        }
      }
    }
    Sums::store(to, kColumns);
    const bool odd = (held_.note(first) >> (first % kBlockKeys / kGroupKeys) & 1) != 0;
    if (pieces_.rounds_inputs) return;
    if (HWY_UNLIKELY(odd || !has_ordinary_queries)) mend_logits<kVectors>(pieces_, keys, queries, count, to);
  }

  // to[dim][query] += values by weights [key - block][query], for the groups of keys first <= j < last of the block
  // that begins at `block`. The weights become words of pieces.
  template <int kVectors>
  HWY_NOINLINE void add_values(const AttentionTask& task, std::int64_t block, std::int64_t first, std::int64_t last,
                               float* weights, float* to) const {
    constexpr int kColumns = kVectors * kLanes<float>;
    const Tag<float> d;
    const std::int64_t dims = task.common->value_dim, whole = whole_vectors<float>(dims);
    const float* values = held_.value_at(first, [&](std::int64_t begin, std::int64_t end, float* target) {
      hold(begin, convert_values(task.value, begin, end, dims, target), /*shift=*/16);
    });
    const bool odd = held_.note(first) >> 16 != 0, careful = odd || has_subnormal(to, dims * kColumns);
    // Vectors cut a group's weights while tiles multiply the one before it.
    const auto multiply = [&]<int kTiles>(std::int64_t dim, float* sums) {
      using Sums = TileSums<Tiles, kTiles, kVectors>;
      Sums::load(sums, kColumns);
      for (std::int64_t group = first; group < last; group += kGroupKeys) {
        if (dim == 0) cut_weights<kVectors>(group - block, weights);
        const float* left = values + (group - first) * whole / 2 * pieces_.inputs + dim * kTileSide;
        for (int a = pieces_.inputs - 1; a >= 0; --a) {
          for (int b = std::min(pieces_.value_order - a, pieces_.weights - 1); b >= 0; --b) {
            Sums::multiply(left + a * whole * kTileSide, weight_words(weights, group - block, b, kColumns),
                           weight_step(b, kColumns));
          }
        }
      }
      Sums::store(sums, kColumns);
    };
    const auto add = [&]<int kTiles>(std::int64_t dim) {
      float* sums = to + dim * kColumns;
      const std::int64_t count = std::min<std::int64_t>(kTiles * kTileSide, dims - dim);
      if (HWY_LIKELY(!careful && count == kTiles * kTileSide)) return multiply.template operator()<kTiles>(dim, sums);
      HWY_ALIGN float padded[kTiles * kTileSide * kColumns] = {};
      std::copy_n(sums, count * kColumns, padded);
      multiply.template operator()<kTiles>(dim, padded);
      if (careful) restore_subnormals(sums, count * kColumns, padded);
      if (odd) {
        const auto weight_of = [&](std::int64_t key, int c) {
          const auto piece = [&](int p) {
            const float* words = weight_words(weights, (key - block) & ~std::int64_t{1}, p, kColumns);
            return half_of(hn::Load(d, words + c * kLanes<float>), /*upper=*/key % 2 != 0);
          };
          Vec<float> weight = piece(0);
          for (int p = 1; p < pieces_.weights; ++p) weight = join(weight, piece(p));
          return weight;
        };
        mend_values<kVectors>(task, pieces_, {first, std::min(last, task.k_len)}, dim, count, weight_of, sums, padded);
      }
      std::copy_n(padded, count * kColumns, sums);
    };
    std::int64_t dim = 0;
    for (; dim + kTileSide < dims; dim += 2 * kTileSide) add.template operator()<2>(dim);
    if (dim < dims) add.template operator()<1>(dim);
  }

  template <Unit kUnit, class T>
  static HWY_INLINE Vec<T> weight(Vec<T> x) {
    return power<kUnit, T>(x);
  }

 private:
  static HeldBlocks::Widths widths(const AttentionTask& task) {
    const int pieces = tile_pieces(task).inputs;
    return {pieces * words_of_tiles(task.common->key_dim), pieces * whole_vectors<float>(task.common->value_dim) / 2};
  }

  template <class Visit>
  HWY_INLINE void cut_inputs(Vec<float> low, Vec<float> high, const Visit& visit) const {
    if (pieces_.are_bf16) return visit(0, upper_halves(low, high));
    cut<Tiles>(low, high, pieces_.inputs, visit);
  }

  // Notes which groups of a block have odd numbers, a bit for each.
  void hold(std::int64_t first, std::uint32_t odd_groups, int shift) const {
    std::uint32_t& note = held_.note(first);
    note = (note & ~(0xffffu << shift)) | odd_groups << shift;
  }

  // Groups of [tile of words][piece][key], each key's tile of words a vector; zeros up to whole tiles. Returns a bit
  // for each group that has other than ordinary numbers.
  HWY_NOINLINE std::uint32_t convert_keys(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size,
                                          float* to) const {
    constexpr std::int64_t kFactors = 2 * kTileSide;
    const Tag<float> d;
    std::uint32_t odd_groups = 0;
    with_type<float>(rows.type, [&]<class S>(S) {
      for (std::int64_t group = first; group < last; group += kGroupKeys) {
        bool ordinary = true;
        for (std::int64_t factor = 0; factor < size;
             factor += kFactors, to += pieces_.inputs * kTileSide * kGroupKeys) {
          for (std::int64_t key = group; key < group + kGroupKeys; ++key) {
            Vec<float> low = hn::Zero(d), high = low;
            if (key < last) {
              const S* from = rows_from<S>(rows, key, last).data + factor;
              low = load_first(from, size - factor);
              high = load_first(from + kTileSide, size - factor - kTileSide);
            }
            const auto are_ordinary = hn::And(is_ordinary(low, pieces_.keys), is_ordinary(high, pieces_.keys));
            ordinary = ordinary && hn::AllTrue(d, are_ordinary);
            cut_inputs(low, high, [&](int p, __m512i halves) {
              float* target = to + (p * kGroupKeys + key - group) * kTileSide;
              hn::Store(Vec<float>{_mm512_castsi512_ps(halves)}, d, target);
            });
          }
        }
        if (!ordinary) odd_groups |= 1u << (group % kBlockKeys / kGroupKeys);
      }
    });
    return odd_groups;
  }

  // Groups of [piece][dim][pair of keys], in whole tiles. Other than ordinary numbers become 0: mend_values() adds what
  // they give. Returns a bit for each group that has any.
  HWY_NOINLINE std::uint32_t convert_values(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size,
                                            float* to) const {
    const Tag<float> d;
    const std::int64_t whole = whole_vectors<float>(size);
    std::uint32_t odd_groups = 0;
    with_type<float>(rows.type, [&]<class S>(S) {
      for (std::int64_t group = first; group < last; group += kGroupKeys, to += pieces_.inputs * whole * kTileSide) {
        bool ordinary = true;
        const auto ordinary_row = [&](std::int64_t key, std::int64_t dim) {
          if (key >= last) return hn::Zero(d);
          const Vec<float> row = load_first(rows_from<S>(rows, key, last).data + dim, size - dim);
          const auto is = is_ordinary(row, pieces_.values);
          ordinary = ordinary && hn::AllTrue(d, is);
          return hn::IfThenElseZero(is, row);
        };
        for (std::int64_t dim = 0; dim < size; dim += kTileSide) {
          Vec<float> pairs[kMostInputPieces][kTileSide];
          for (int i = 0; i < kTileSide; ++i) {
            const Vec<float> low = ordinary_row(group + 2 * i, dim), high = ordinary_row(group + 2 * i + 1, dim);
            cut_inputs(low, high, [&](int p, __m512i halves) { pairs[p][i] = interleave(halves); });
          }
          for (int p = 0; p < pieces_.inputs; ++p) {
            transpose_square<float>(pairs[p]);
            float* target = to + (p * whole + dim) * kTileSide;
            for (int i = 0; i < kTileSide; ++i) hn::Store(pairs[p][i], d, target + i * kTileSide);
          }
        }
        if (!ordinary) odd_groups |= 1u << (group % kBlockKeys / kGroupKeys);
      }
    });
    return odd_groups;
  }

  // The weights of a group, from row `first` on become words.
  template <int kVectors>
  HWY_INLINE void cut_weights(std::int64_t first, float* weights) const {
    if (pieces_.weights == 1) return cut_weights<kVectors, 1>(first, weights);
    if (pieces_.weights == 2) return cut_weights<kVectors, 2>(first, weights);
    cut_weights<kVectors, 3>(first, weights);
  }
  template <int kVectors, int kPieces>
  HWY_INLINE void cut_weights(std::int64_t first, float* weights) const {
    constexpr int kColumns = kVectors * kLanes<float>;
    const Tag<float> d;
    for (std::int64_t row = first; row < first + kGroupKeys; row += 2) {
      for (int c = 0; c < kColumns; c += kLanes<float>) {
        const float* at = weights + row * kColumns + c;
        cut<Tiles>(hn::Load(d, at), hn::Load(d, at + kColumns), kPieces, [&](int p, __m512i halves) {
          hn::Store(interleave(halves), d, weight_words(weights, row, p, kColumns) + c);
        });
      }
    }
  }

  const TilePieces pieces_;
  HeldBlocks held_;
};

// Where weights are rounded to bf16 next.
template <class Tiles>
class ReducedTiledProduct : public TiledProduct<Tiles> {
 public:
  using TiledProduct<Tiles>::TiledProduct;

  template <Unit kUnit, class T>
  static HWY_INLINE Vec<T> weight(Vec<T> x) {
    if constexpr (kUnit == Unit::natural) x = hn::Mul(x, hn::Set(Tag<T>(), T(kLog2E)));
    return exp2_coarse(x);
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_AVX3

#endif  // per-target include guard
