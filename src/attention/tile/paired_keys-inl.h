// The products of attention in bf16 where AVX512-BF16 multiplies queries by keys: pairs of neighbouring factors as they
// lie in memory, twice the work of f32, and exact, as f32 holds any product of two bf16. Weights times values stay in
// f32. In place of exact_product-inl.h. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_PAIRED_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_PAIRED_KEYS_INL_H_
#undef QKV_ATTENTION_TILE_PAIRED_KEYS_INL_H_
#else
#define QKV_ATTENTION_TILE_PAIRED_KEYS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "attention/tile/attention_task.h"
#include "attention/tile/exact_product-inl.h"
#include "attention/tile/held_blocks-inl.h"
#include "simd/bf16_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// PairStep multiplies ordinary pairs; all others MultiplyPairsInF32 does, which gives ordinary ones the same bits. So a
// row's bits are those of MultiplyPairsInF32, whatever lies beside it.
template <class PairStep>
class PairedKeysProduct {
 public:
  using Step = PairStep;
  using CarefulStep = MultiplyPairsInF32;
  static constexpr std::int64_t kGroupKeys = 0;
  static constexpr bool kIsCareful = true;
  static constexpr bool kProjectsKeys = false;

  PairedKeysProduct(const AttentionTask& task, std::size_t other_bytes, std::byte* memory)
      : held_(task, widths(task), other_bytes, memory) {}

  static std::size_t bytes(const AttentionTask& task, std::size_t other_bytes) {
    return HeldBlocks::bytes(task, widths(task), other_bytes);
  }

  static std::int64_t keys_held(const AttentionTask& task, std::size_t other_bytes) {
    return HeldBlocks::keys(task, widths(task), other_bytes);
  }

  static std::int64_t words(std::int64_t size) { return (size + 1) / 2; }

  // Rows of memory for a right operand, and for the weights of a block.
  static std::int64_t packed_rows(const AttentionTask&, std::int64_t size) { return size; }
  static std::int64_t weight_rows(const AttentionTask&) { return kBlockKeys; }

  // Floats that are bf16 become pairs. Returns whether all are ordinary.
  template <int kVectors>
  static bool pack(float* rows, std::int64_t size) {
    const Tag<float> d;
    constexpr int kColumns = kVectors * kLanes<float>;
    bool ordinary = true;
    float* to = rows;
    for (std::int64_t i = 0; i < size; i += 2, to += kColumns) {
      for (int c = 0; c < kColumns; c += kLanes<float>) {
        const float* low = rows + i * kColumns + c;
        const Vec<float> high = i + 1 < size ? hn::Load(d, low + kColumns) : hn::Zero(d);
        const Vec<float> words = pair_floats(hn::Load(d, low), high);
        ordinary = ordinary && are_ordinary(words);
        hn::Store(words, d, to + c);
      }
    }
    return ordinary;
  }

  HWY_INLINE const float* key_rows(const AttentionTask& task, std::int64_t first, float*, std::int64_t& step) const {
    step = words(task.common->key_dim);
    return held_.key_at(first, [&](std::int64_t begin, std::int64_t end, float* to) {
      held_.note(begin) = copy_keys(task.key, begin, end, task.common->key_dim, to);
    });
  }

  // Whether the tile of keys that begins at `key`, and was asked for, is ordinary.
  HWY_INLINE bool has_ordinary_keys(std::int64_t key) const {
    return (held_.note(key) >> (key % kBlockKeys / kTileRows) & 1) == 0;
  }

  template <class T>
  HWY_INLINE KeyRows<float> value_rows(const AttentionTask& task, std::int64_t first, std::int64_t last) const {
    return held_values(held_, task, first, last);
  }

  template <Unit kUnit, class T>
  static HWY_INLINE Vec<T> weight(Vec<T> x) {
    return power<kUnit, T>(x);
  }

 private:
  static_assert(kBlockKeys / kTileRows <= 32);

  static HeldBlocks::Widths widths(const AttentionTask& task) {
    return {words(task.common->key_dim), whole_vectors<float>(task.common->value_dim)};
  }

  // Whole tiles, with zeros beyond the last key. Returns a bit for each tile of a block that is not ordinary.
  static HWY_NOINLINE std::uint32_t copy_keys(const Rows& rows, std::int64_t first, std::int64_t last,
                                              std::int64_t size, float* to) {
    const std::int64_t step = words(size);
    std::uint32_t odd_tiles = 0;
    for (std::int64_t key = first; key < last; ++key, to += step) {
      if (size % 2 != 0) to[step - 1] = 0;
      std::memcpy(to, rows_from<BFloat16>(rows, key, last).data, sizeof(BFloat16) * static_cast<std::size_t>(size));
      if (!is_ordinary_row(to, step)) odd_tiles |= std::uint32_t{1} << (key % kBlockKeys / kTileRows);
    }
    if (last % kTileRows != 0) std::fill_n(to, (kTileRows - last % kTileRows) * step, 0.0f);
    return odd_tiles;
  }

  HeldBlocks held_;
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
