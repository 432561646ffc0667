// Both products of attention with factors rounded to bf16, in floats: keys go in groups of 32, counted from the first,
// and sums are those of the tiles of AMX (tiled_product-inl.h), bit for bit. In place of exact_product-inl.h. Included
// once per CPU target.

#if defined(QKV_ATTENTION_TILE_REDUCED_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_REDUCED_PRODUCT_INL_H_
#undef QKV_ATTENTION_TILE_REDUCED_PRODUCT_INL_H_
#else
#define QKV_ATTENTION_TILE_REDUCED_PRODUCT_INL_H_
#endif

#include <algorithm>

#include "attention/tile/attention_task.h"
#include "attention/tile/held_blocks-inl.h"
#include "attention/tile/mended_values-inl.h"
#include "attention/tile/softmax_state-inl.h"
#include "simd/bf16_chains-inl.h"
#include "simd/flush_subnormals.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

class ReducedProduct {
 public:
  static constexpr std::int64_t kGroupKeys = kChainDepth;
  static constexpr bool kProjectsKeys = false;

  ReducedProduct(const AttentionTask& task, std::size_t other_bytes, std::byte* memory)
      : pieces_(tile_pieces(task)), held_(task, widths(task), other_bytes, memory) {}

  static std::size_t bytes(const AttentionTask& task, std::size_t other_bytes) {
    return HeldBlocks::bytes(task, widths(task), other_bytes);
  }

  static std::int64_t keys_held(const AttentionTask& task, std::size_t other_bytes) {
    return HeldBlocks::keys(task, widths(task), other_bytes);
  }

  static std::int64_t packed_rows(const AttentionTask&, std::int64_t size) { return size; }
  static std::int64_t weight_rows(const AttentionTask&) { return kBlockKeys; }

  template <int kVectors>
  bool pack(float* rows, std::int64_t size) const {
    round(rows, size * kVectors * kLanes<float>);
    return true;
  }

  // to[key][query]: the products of a group of keys with packed queries.
  template <int kVectors>
  HWY_NOINLINE void multiply_keys(const AttentionTask& task, std::int64_t first, const float* queries, bool,
                                  float* to) const {
    constexpr int kColumns = kVectors * kLanes<float>;
    const std::int64_t size = task.common->key_dim, step = whole_vectors<float>(size);
    const float* keys = held_.key_at(
        first, [&](std::int64_t begin, std::int64_t end, float* target) { hold(task.key, begin, end, size, target); });
    const FlushSubnormals mode;
    for (int row = 0; row < kGroupKeys; row += kTileRows) {
      Vec<float> sum[kTileRows][kVectors];
      clear(sum);
      for (std::int64_t e = 0; e < size; e += kChainDepth) {
        add_chains<kTileRows, kVectors>(keys + row * step + e, step, 1, queries + e * kColumns, kColumns,
                                        std::min(kChainDepth, size - e), sum);
      }
      store_sums<kVectors>(sum, to + row * kColumns);
    }
  }

  // to[dim][query] += values by weights [key - block][query], for the groups of keys first <= j < last of the block
  // that begins at `block`. The weights are rounded.
  template <int kVectors>
  HWY_NOINLINE void add_values(const AttentionTask& task, std::int64_t block, std::int64_t first, std::int64_t last,
                               float* weights, float* to) const {
    constexpr int kColumns = kVectors * kLanes<float>;
    const std::int64_t dims = task.common->value_dim;
    round(weights + (first - block) * kColumns, (last - first) * kColumns);
    bool odd = false;
    for (std::int64_t group = first; group < last; group += kGroupKeys) {
      group_of_values(task, group);
      odd = odd || (held_.note(group) >> (group % kBlockKeys / kGroupKeys) & 1) != 0;
    }
    const float* rows = weights - block * kColumns;
    if (HWY_LIKELY(!odd && !has_subnormal(to, dims * kColumns)))
      return add_some<kVectors>(task, first, last, rows, 0, dims, to);
    constexpr std::int64_t kMended = 16;
    for (std::int64_t dim = 0; dim < dims; dim += kMended) {
      const std::int64_t count = std::min(kMended, dims - dim);
      float* sums = to + dim * kColumns;
      HWY_ALIGN float before[kMended * kColumns];
      std::copy_n(sums, count * kColumns, before);
      add_some<kVectors>(task, first, last, rows, dim, dim + count, to);
      restore_subnormals(before, count * kColumns, sums);
      if (!odd) continue;
      const auto weight_of = [&](std::int64_t key, int c) {
        return hn::Load(Tag<float>(), rows + key * kColumns + c * kLanes<float>);
      };
      mend_values<kVectors>(task, pieces_, {first, std::min(last, task.k_len)}, dim, count, weight_of, before, sums);
    }
  }

  template <Unit kUnit, class T>
  static HWY_INLINE Vec<T> weight(Vec<T> x) {
    if constexpr (kUnit == Unit::natural) x = hn::Mul(x, hn::Set(Tag<T>(), T(kLog2E)));
    return exp2_coarse(x);
  }

 private:
  static HeldBlocks::Widths widths(const AttentionTask& task) {
    return {whole_vectors<float>(task.common->key_dim), whole_vectors<float>(task.common->value_dim)};
  }

  static void round(float* numbers, std::int64_t count) {
    const Tag<float> d;
    for (float* at = numbers; at < numbers + count; at += kLanes<float>) {
      hn::Store(round_to_bf16(hn::Load(d, at)), d, at);
    }
  }

  template <int kRows, int kVectors>
  static HWY_INLINE void clear(Vec<float> (&sum)[kRows][kVectors]) {
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::Zero(Tag<float>());
    }
  }

  // Rounded rows of whole vectors; zeros up to a whole group.
  static HWY_NOINLINE void hold(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size, float* to) {
    const std::int64_t step = whole_vectors<float>(size), end = (last + kGroupKeys - 1) / kGroupKeys * kGroupKeys;
    read_rows(rows, first, last, size, to, step);
    for (std::int64_t key = first; key < last; ++key, to += step) {
      std::fill(to + size, to + step, 0.0f);
      round(to, step);
    }
    std::fill_n(to, (end - last) * step, 0.0f);
  }

  // Other than ordinary values become 0: mend_values() adds what they give; a bit for each group that has any is noted.
  const float* group_of_values(const AttentionTask& task, std::int64_t group) const {
    return held_.value_at(group, [&](std::int64_t first, std::int64_t last, float* to) {
      const Tag<float> d;
      const std::int64_t size = task.common->value_dim, step = whole_vectors<float>(size);
      hold(task.value, first, last, size, to);
      std::uint32_t odd_groups = 0;
      for (std::int64_t key = first; key < last; ++key) {
        for (float* at = to + (key - first) * step; at < to + (key - first + 1) * step; at += kLanes<float>) {
          const Vec<float> row = hn::Load(d, at);
          const auto ordinary = is_ordinary(row, pieces_.values);
          if (HWY_LIKELY(hn::AllTrue(d, ordinary))) continue;
          odd_groups |= 1u << (key % kBlockKeys / kGroupKeys);
          hn::Store(hn::IfThenElseZero(ordinary, row), d, at);
        }
      }
      held_.note(first) = odd_groups;
    });
  }

  // Of dims begin <= i < end; weights [key][query].
  template <int kVectors>
  HWY_NOINLINE void add_some(const AttentionTask& task, std::int64_t first, std::int64_t last, const float* weights,
                             std::int64_t begin, std::int64_t end, float* to) const {
    constexpr int kColumns = kVectors * kLanes<float>;
    const std::int64_t step = whole_vectors<float>(task.common->value_dim);
    for (std::int64_t group = first; group < last; group += kGroupKeys) {
      const float* values = group_of_values(task, group);
      const FlushSubnormals mode;
      const auto add = [&]<int kRows>(std::int64_t dim) {
        Vec<float> sum[kRows][kVectors];
        load_sums<kVectors>(to + dim * kColumns, sum);
        add_chains<kRows, kVectors>(values + dim, 1, step, weights + group * kColumns, kColumns, kGroupKeys, sum);
        store_sums<kVectors>(sum, to + dim * kColumns);
      };
      std::int64_t dim = begin;
      for (; dim + kTileRows <= end; dim += kTileRows) add.template operator()<kTileRows>(dim);
      for (; dim < end; ++dim) add.template operator()<1>(dim);
    }
  }

  const TilePieces pieces_;
  HeldBlocks held_;
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
