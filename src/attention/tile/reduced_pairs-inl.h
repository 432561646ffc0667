// Both products of attention in pairs of bf16: a word holds two neighbouring factors, and one instruction of
// AVX512-BF16 multiplies the pairs of two words and adds both products to a float: twice the work of f32. In place of
// exact_product-inl.h. Included once per CPU target, of which only AVX-512 has it.

#if defined(QKV_ATTENTION_TILE_REDUCED_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_REDUCED_PAIRS_INL_H_
#undef QKV_ATTENTION_TILE_REDUCED_PAIRS_INL_H_
#else
#define QKV_ATTENTION_TILE_REDUCED_PAIRS_INL_H_
#endif

#include <algorithm>

#include "attention/tile/accumulate-inl.h"
#include "attention/tile/attention_task.h"
#include "attention/tile/bf16_pairs-inl.h"
#include "simd/bf16_products-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Values in pairs of keys [count / 2][step], and the rows they come from.
struct PairedValues {
  // Whether rounding left neither infinity nor NaN, in the last one's neighbour neither.
  bool are_finite(std::int64_t size) const {
    const Tag<float> d;
    const Vec<float> limit = hn::Set(d, 0x1.ffp127f);  // from here on the nearest bf16 is infinite
    const std::int64_t last = std::min(first + (count + 1) / 2 * 2, all);
    bool finite = true;
    with_type<float>(rows.type, [&]<class S>(S) {
      for (std::int64_t key = first; key < last; ++key) {
        const S* row = rows_from<S>(rows, key, last).data;
        for (std::int64_t i = 0; i < size; i += kLanes<float>) {
          finite = finite && hn::AllTrue(d, hn::Lt(hn::Abs(load_first(row + i, size - i)), limit));
        }
      }
    });
    return finite;
  }

  const Rows& rows;
  std::int64_t first, all, count;
  const float* pairs;
  std::int64_t step;
};

// to[r][query] += sum over pairs of values[pair][r] * tile[pair][query]; values[pair] at values + pair * step.
template <int kRows, int kVectors, int kStride>
HWY_INLINE void accumulate_pairs(const float* values, std::int64_t step, const float* tile, std::int64_t pairs,
                                 float* to) {
  Vec<float> sum[kRows][kVectors];
  load_sums<kStride>(to, sum);
  multiply_tile<kRows, kVectors, float, MultiplyPairs>(values, 1, step, tile, kStride * kLanes<float>, pairs, sum);
  store_sums<kStride>(sum, to);
}

// The same for values with NaN or infinity: a key hidden from a query (its weight is -0) counts as 0 there.
template <int kRows, int kVectors, int kStride>
HWY_NOINLINE void accumulate_visible_pairs(const float* values, std::int64_t step, const float* tile,
                                           std::int64_t pairs, float* to) {
  const __m512i mark = _mm512_set1_epi16(static_cast<short>(0x8000));
  Vec<float> sum[kRows][kVectors];
  load_sums<kStride>(to, sum);
  for (std::int64_t pair = 0; pair < pairs; ++pair, values += step) {
    for (int c = 0; c < kVectors; ++c) {
      const Vec<float> weights = hn::Load(Tag<float>(), tile + (pair * kStride + c) * kLanes<float>);
      const __mmask32 visible = _mm512_cmpneq_epi16_mask(_mm512_castps_si512(weights.raw), mark);
      for (int r = 0; r < kRows; ++r) {
        const __m512i seen = _mm512_maskz_mov_epi16(visible, _mm512_castps_si512(_mm512_set1_ps(values[r])));
        sum[r][c] = MultiplyPairs::apply(Vec<float>{_mm512_castsi512_ps(seen)}, weights, sum[r][c]);
      }
    }
  }
  store_sums<kStride>(sum, to);
}

// accumulate() of accumulate-inl.h in pairs of keys; `tile` is left as pairs.
template <int kVectors, int kStride = kVectors, class Meanwhile>
void accumulate(const PairedValues& values, std::int64_t dims, float* tile, const float* marks, float* to,
                const Meanwhile& meanwhile) {
  constexpr int kColumns = kStride * kLanes<float>;
  const std::int64_t pairs = (values.count + 1) / 2;
  pair_rows<kVectors, kStride>(tile, values.count, tile);
  const auto add = [&]<int kRows>(const float* from) {
    if (HWY_UNLIKELY(marks != nullptr)) {
      accumulate_visible_pairs<kRows, kVectors, kStride>(from, values.step, tile, pairs, to);
    } else {
      accumulate_pairs<kRows, kVectors, kStride>(from, values.step, tile, pairs, to);
    }
    to += kRows * kColumns;
  };
  std::int64_t dim = 0;
  for (; dim + kTileRows <= dims; dim += kTileRows) {
    meanwhile();
    add.template operator()<kTileRows>(values.pairs + dim);
  }
  for (; dim < dims; ++dim) add.template operator()<1>(values.pairs + dim);
}

// In place of ExactProduct.
class ReducedPairsProduct : public PairsProduct<ReducedPairsProduct> {
 public:
  using Step = MultiplyPairs;
  static constexpr std::int64_t kGroupKeys = 0;
  static constexpr bool kIsCareful = false;
  static constexpr bool kProjectsKeys = false;

  using PairsProduct::PairsProduct;

  static std::int64_t words(std::int64_t size) { return (size + 1) / 2; }

  // Rows of memory for a right operand, and for the weights of a block.
  static std::int64_t packed_rows(const AttentionTask&, std::int64_t size) { return size; }
  static std::int64_t weight_rows(const AttentionTask&) { return kBlockKeys; }

  template <int kVectors>
  static bool pack(float* rows, std::int64_t size) {
    pair_rows<kVectors>(rows, size, rows);
    return true;
  }

  HWY_INLINE const float* key_rows(const AttentionTask& task, std::int64_t first, float*, std::int64_t& step) const {
    step = words(task.common->key_dim);
    return held_.key_at(first, [&](std::int64_t begin, std::int64_t end, float* to) {
      convert_keys(task.key, begin, end, task.common->key_dim, to);
    });
  }

  template <class T>
  PairedValues value_rows(const AttentionTask& task, std::int64_t first, std::int64_t last) const {
    const float* pairs = held_.value_at(first, [&](std::int64_t begin, std::int64_t end, float* to) {
      convert_values(task.value, begin, end, task.common->value_dim, to);
    });
    last = std::min(last, held_.end_of_block(first));
    return {task.value, first, task.k_len, last - first, pairs, whole_vectors<float>(task.common->value_dim)};
  }

 private:
  static HWY_NOINLINE void convert_keys(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size,
                                        float* to) {
    const std::int64_t step = words(size);
    with_type<float>(rows.type, [&]<class S>(S) {
      for (std::int64_t key = first; key < last; ++key, to += step) {
        pair_neighbours(rows_from<S>(rows, key, last).data, size, to);
      }
    });
    if (last % kTileRows != 0) std::fill_n(to, (kTileRows - last % kTileRows) * step, 0.0f);
  }

  // Pairs of keys, which begin with an even one.
  static HWY_NOINLINE void convert_values(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size,
                                          float* to) {
    with_type<float>(rows.type, [&]<class S>(S) {
      for (std::int64_t key = first; key < last; key += 2) {
        const S* low = rows_from<S>(rows, key, last).data;
        const S* high = key + 1 < last ? rows_from<S>(rows, key + 1, last).data : nullptr;
        for (std::int64_t dim = 0; dim < size; dim += kLanes<float>, to += kLanes<float>) {
          const Vec<float> of_high = high != nullptr ? load_first(high + dim, size - dim) : hn::Zero(Tag<float>());
          hn::Store(to_pairs(load_first(low + dim, size - dim), of_high), Tag<float>(), to);
        }
      }
    });
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_AVX3

#endif  // per-target include guard
