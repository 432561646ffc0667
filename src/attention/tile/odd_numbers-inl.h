// What tiles would get wrong: the logits and outputs that depend on other than ordinary numbers, by vectors, over what
// tiles left. Which these are depends on a row's own query and on the keys that it sees. Included once per CPU target,
// of which only AVX-512 has tiles.

#if defined(QKV_ATTENTION_TILE_ODD_NUMBERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_ODD_NUMBERS_INL_H_
#undef QKV_ATTENTION_TILE_ODD_NUMBERS_INL_H_
#else
#define QKV_ATTENTION_TILE_ODD_NUMBERS_INL_H_
#endif

#include <limits>

#include "attention/tile/tile_sums-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

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

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_AVX3

#endif  // per-target include guard
