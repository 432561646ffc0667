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

#include "attention/tile/attention_task.h"
#include "attention/tile/held_blocks-inl.h"
#include "attention/tile/softmax_state-inl.h"
#include "attention/tile/tile_pieces.h"
#include "attention/tile/tile_sums-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// What tiles would get wrong: the logits and outputs that depend on other than ordinary numbers, by vectors, over what
// tiles left. Which these are depends on a row's own query and on the keys that it sees.

// What pieces were cut from; of infinities and NaN the first piece tells.
HWY_INLINE Vec<float> join(Vec<float> sum, Vec<float> piece) {
  const auto finite = hn::Lt(hn::Abs(sum), hn::Set(Tag<float>(), std::numeric_limits<float>::infinity()));
  return hn::IfThenElse(finite, hn::Add(sum, piece), sum);
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

// `after` becomes, where a query sees an odd value of keys first <= j < last, what it was `before` and the products
// of the keys it sees, one after the other. Of dims dim ... dim + rows - 1.
template <int kVectors>
HWY_NOINLINE void mend_values(const TilePieces& pieces, const AttentionTask& task, std::int64_t block,
                              std::int64_t first, std::int64_t last, std::int64_t dim, std::int64_t rows,
                              float* weights, const float* before, float* after) {
  constexpr int kColumns = kVectors * kLanes<float>;
  const Tag<float> d;
  const auto weight_of = [&](std::int64_t key, int c, int piece) {
    const std::int64_t row = (key - block) & ~std::int64_t{1};
    const Vec<float> words = hn::Load(d, weight_words(weights, row, piece, kColumns) + c * kLanes<float>);
    return key % 2 == 0 ? half_of<false>(words) : half_of<true>(words);
  };
  const auto sees = [&](std::int64_t key, int c) {
    const hn::RebindToSigned<Tag<float>> bits;
    const auto hidden = hn::Eq(hn::BitCast(bits, weight_of(key, c, 0)), hn::BitCast(bits, hn::Set(d, -0.0f)));
    return hn::RebindMask(d, hn::Not(hidden));
  };
  with_type<float>(task.value.type, [&]<class S>(S) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto exact = [&](std::int64_t key) {
        return static_cast<float>(rows_from<S>(task.value, key, last).data[dim + r]);
      };
      const auto value = [&](std::int64_t key) {
        return pieces.rounds_inputs ? static_cast<float>(BFloat16(exact(key))) : exact(key);
      };
      for (int c = 0; c < kVectors; ++c) {
        auto seen = hn::Ne(hn::Zero(d), hn::Zero(d));
        for (std::int64_t key = first; key < last; ++key) {
          const bool ordinary = hn::AllTrue(d, is_ordinary(hn::Set(d, exact(key)), pieces.values));
          if (!ordinary) seen = hn::Or(seen, sees(key, c));
        }
        if (hn::AllFalse(d, seen)) continue;
        const std::int64_t at = r * kColumns + c * kLanes<float>;
        Vec<float> sum = hn::Load(d, before + at);
        for (std::int64_t key = first; key < last; ++key) {
          Vec<float> weight = weight_of(key, c, 0);
          for (int p = 1; p < pieces.weights; ++p) weight = join(weight, weight_of(key, c, p));
          sum = hn::IfThenElse(sees(key, c), hn::MulAdd(weight, hn::Set(d, value(key)), sum), sum);
        }
        hn::Store(hn::IfThenElse(seen, sum, hn::Load(d, after + at)), d, after + at);
      }
    }
  });
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
    const bool odd = held_.note(first) >> 16 != 0;
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
      if (HWY_LIKELY(!odd && count == kTiles * kTileSide)) return multiply.template operator()<kTiles>(dim, sums);
      HWY_ALIGN float padded[kTiles * kTileSide * kColumns] = {};
      std::copy_n(sums, count * kColumns, padded);
      multiply.template operator()<kTiles>(dim, padded);
      if (odd)
        mend_values<kVectors>(pieces_, task, block, first, std::min(last, task.k_len), dim, count, weights, sums,
                              padded);
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
