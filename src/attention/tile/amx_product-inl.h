// Both products of attention by the tiles of AMX, in bf16. In place of exact_product-inl.h, in groups of 32 keys,
// counted from the first: an instruction adds up the products of a group before it adds them to what was there, so that
// a group stays whole whatever its queries see, and keys hidden from all of them have the weight -0. Included once per
// CPU target, of which only AVX-512 has tiles.

#if defined(QKV_ATTENTION_TILE_AMX_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_AMX_PRODUCT_INL_H_
#undef QKV_ATTENTION_TILE_AMX_PRODUCT_INL_H_
#else
#define QKV_ATTENTION_TILE_AMX_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "attention/tile/attention_task.h"
#include "attention/tile/bf16_pairs-inl.h"
#include "core/divide_up.h"
#include "simd/amx_tiles.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline constexpr int kTileSide = 16;  // rows of a tile, and its words

// visit(0), visit(1) ... as constants, which name tiles.
template <int kCount, class Visit>
HWY_INLINE void unroll(const Visit& visit) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (visit(std::integral_constant<int, kIndex>()), ...);
  }(std::make_integer_sequence<int, kCount>());
}

// Sums of kRowTiles by kVectors tiles, and one tile for each operand.
template <int kRowTiles, int kVectors>
struct TileSums {
  static constexpr int kLeft = kRowTiles * kVectors, kRight = kLeft + 1;
  static_assert(kRight < 8);

  template <class Visit>
  static HWY_INLINE void for_each(const Visit& visit) {
    unroll<kRowTiles>([&](auto r) { unroll<kVectors>([&](auto c) { visit(r, c); }); });
  }

  static HWY_INLINE void clear() {
    for_each([](auto r, auto c) { clear_tile<r * kVectors + c>(); });
  }

  // Tiles of rows `step` floats apart.
  static HWY_INLINE void load(const float* from, std::int64_t step) {
    for_each([&](auto r, auto c) { load_tile<r * kVectors + c>(from + r * kTileSide * step + c * kTileSide, step); });
  }
  static HWY_INLINE void store(float* to, std::int64_t step) {
    for_each([&](auto r, auto c) { store_tile<r * kVectors + c>(to + r * kTileSide * step + c * kTileSide, step); });
  }

  // Adds the products of 16 words: left tiles [row][word], one after the other, by right ones [word][column].
  static HWY_INLINE void multiply(const float* left, const float* right, std::int64_t right_step) {
    unroll<kRowTiles>([&](auto r) {
      load_tile<kLeft>(left + r * kTileSide * kTileSide, kTileSide);
      unroll<kVectors>([&](auto c) {
        load_tile<kRight>(right + c * kTileSide, right_step);
        multiply_tiles<r * kVectors + c, kLeft, kRight>();
      });
    });
  }
};

class AmxProduct : public PairsProduct<AmxProduct> {
 public:
  // Keys of a group.
  static constexpr std::int64_t kGroupKeys = 2 * kTileSide;

  using PairsProduct::PairsProduct;

  // Words of whole tiles that hold `size` factors.
  static std::int64_t words(std::int64_t size) { return divide_up(size, 2 * kTileSide) * kTileSide; }

  template <int kVectors>
  static bool pack(float* rows, std::int64_t size) {
    constexpr int kColumns = kVectors * kLanes<float>;
    pair_rows<kVectors>(rows, size, rows);
    std::fill(rows + divide_up(size, 2) * kColumns, rows + words(size) * kColumns, 0.0f);
    return true;
  }

  // to[key][query]: the products of a group of keys with packed queries.
  template <int kVectors>
  HWY_NOINLINE void multiply_keys(const AttentionTask& task, std::int64_t first, const float* queries,
                                  float* to) const {
    constexpr int kColumns = kVectors * kLanes<float>;
    using Sums = TileSums<2, kVectors>;
    const float* keys = held_.key_at(first, [&](std::int64_t begin, std::int64_t end, float* target) {
      convert_keys(task.key, begin, end, task.common->key_dim, target);
    });
    Sums::clear();
    for (std::int64_t word = 0; word < words(task.common->key_dim); word += kTileSide) {
      Sums::multiply(keys + word * kGroupKeys, queries + word * kColumns, kColumns);
    }
    Sums::store(to, kColumns);
  }

  // A group's weights [key][query] become pairs of keys.
  template <int kVectors>
  static HWY_INLINE void pair_weights(const float* weights, float* pairs) {
    pair_rows<kVectors>(weights, kGroupKeys, pairs);
  }

  // to[dim][query] += values by paired weights, for the groups of keys first <= j < last, which one block of those that
  // are held holds.
  template <int kVectors>
  HWY_NOINLINE void add_values(const AttentionTask& task, std::int64_t first, std::int64_t last, const float* pairs,
                               float* to) const {
    constexpr int kColumns = kVectors * kLanes<float>;
    const std::int64_t dims = task.common->value_dim, whole = whole_vectors<float>(dims);
    const float* values = held_.value_at(first, [&](std::int64_t begin, std::int64_t end, float* target) {
      held_.note(begin) = !convert_values(task.value, begin, end, dims, target);
    });
    const auto add = [&]<int kTiles>(std::int64_t dim, float* sums) {
      using Sums = TileSums<kTiles, kVectors>;
      const float *left = values + dim * kTileSide, *right = pairs;
      Sums::load(sums, kColumns);
      for (std::int64_t group = first; group < last; group += kGroupKeys) {
        Sums::multiply(left, right, kColumns);
        left += whole * kTileSide;
        right += kTileSide * kColumns;
      }
      Sums::store(sums, kColumns);
    };
    std::int64_t dim = 0;
    for (; dim + 2 * kTileSide <= dims; dim += 2 * kTileSide) add.template operator()<2>(dim, to + dim * kColumns);
    for (; dim + kTileSide <= dims; dim += kTileSide) add.template operator()<1>(dim, to + dim * kColumns);
    if (dim < dims) {
      HWY_ALIGN float rest[kTileSide * kColumns] = {};
      std::copy(to + dim * kColumns, to + dims * kColumns, rest);
      add.template operator()<1>(dim, rest);
      std::copy(rest, rest + (dims - dim) * kColumns, to + dim * kColumns);
    }
    if (HWY_UNLIKELY(held_.note(first) != 0)) add_special(task, first, std::min(last, task.k_len), pairs, kColumns, to);
  }

 private:
  // Groups of [tile of words][key], each key's tile of words a vector; zeros up to whole tiles.
  static HWY_NOINLINE void convert_keys(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size,
                                        float* to) {
    constexpr std::int64_t kFactors = 2 * kTileSide;
    const Tag<float> d;
    with_type<float>(rows.type, [&]<class S>(S) {
      for (; first < last; first += kGroupKeys) {
        for (std::int64_t factor = 0; factor < size; factor += kFactors) {
          for (std::int64_t key = first; key < first + kGroupKeys; ++key, to += kTileSide) {
            if (key >= last) {
              hn::Store(hn::Zero(d), d, to);
              continue;
            }
            const S* from = rows_from<S>(rows, key, last).data + factor;
            const std::int64_t present = size - factor;
            const __m512i both =
                round_to_bf16(load_first(from, present), load_first(from + kTileSide, present - kTileSide));
            hn::Store(Vec<float>{_mm512_castsi512_ps(both)}, d, to);
          }
        }
      }
    });
  }

  // Groups of [dim][pair of keys], in whole tiles. Infinities and NaN become 0: add_special() adds what they give.
  // Returns whether there are none.
  static HWY_NOINLINE bool convert_values(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size,
                                          float* to) {
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    __mmask32 special = 0;
    with_type<float>(rows.type, [&]<class S>(S) {
      const auto row = [&](std::int64_t key, std::int64_t dim) {
        if (key >= last) return hn::Zero(Tag<float>());
        return load_first(rows_from<S>(rows, key, last).data + dim, size - dim);
      };
      for (; first < last; first += kGroupKeys) {
        for (std::int64_t dim = 0; dim < size; dim += kTileSide, to += kTileSide * kTileSide) {
          Vec<float> pairs[kTileSide];
          for (int i = 0; i < kTileSide; ++i) {
            const std::int64_t key = first + 2 * i;
            const __m512i both = _mm512_castps_si512(to_pairs(row(key, dim), row(key + 1, dim)).raw);
            const __mmask32 finite = _mm512_cmpneq_epi16_mask(_mm512_and_si512(both, exponent), exponent);
            special |= ~finite;
            pairs[i] = Vec<float>{_mm512_castsi512_ps(_mm512_maskz_mov_epi16(finite, both))};
          }
          transpose_square<float>(pairs);
          for (int i = 0; i < kTileSide; ++i) hn::Store(pairs[i], Tag<float>(), to + i * kTileSide);
        }
      }
    });
    return special == 0;
  }

  // What infinities and NaN in the values add for the queries that see their key.
  static HWY_NOINLINE void add_special(const AttentionTask& task, std::int64_t first, std::int64_t last,
                                       const float* pairs, std::int64_t columns, float* to) {
    constexpr std::uint32_t kHidden = 0x80000000;
    with_type<float>(task.value.type, [&]<class S>(S) {
      for (std::int64_t key = first; key < last; ++key) {
        const S* row = rows_from<S>(task.value, key, last).data;
        const float* words = pairs + (key - first) / 2 * columns;
        for (std::int64_t dim = 0; dim < task.common->value_dim; ++dim) {
          const auto value = static_cast<float>(BFloat16(static_cast<float>(row[dim])));
          if (std::abs(value) < kInfinity<float>) continue;
          for (std::int64_t i = 0; i < columns; ++i) {
            const auto word = std::bit_cast<std::uint32_t>(words[i]);
            const std::uint32_t weight = (key - first) % 2 == 0 ? word << 16 : word & 0xffff0000;
            if (weight != kHidden) to[dim * columns + i] += std::bit_cast<float>(weight) * value;
          }
        }
      }
    });
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_AVX3

#endif  // per-target include guard
