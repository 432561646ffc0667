// Masks that a user wrote, called for each pair. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_FUNCTION_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_FUNCTION_MASK_INL_H_
#undef QKV_ATTENTION_TILE_FUNCTION_MASK_INL_H_
#else
#define QKV_ATTENTION_TILE_FUNCTION_MASK_INL_H_
#endif

#include "attention/tile/mask_lanes-inl.h"
#include "attention/tile/mask_words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
class FunctionMask {
 public:
  FunctionMask(const AttentionTask& task, std::int64_t begin, std::int64_t count)
      : task_(task), begin_(begin), count_(count) {}

  static bool is_on(const AttentionTask& task) { return task.common->mask_function_count != 0; }
  bool has_visible(std::int64_t, std::int64_t) const { return true; }

  void load(std::int64_t key, SeenTile<kVectors>& seen) {
    std::fill_n(seen.every, kVectors, false);
    std::fill_n(words_.at[0], Words::kWords * kColumns, Index{-1});
    const std::int64_t present = std::min<std::int64_t>(kTileRows, task_.k_len - key);
    for (std::size_t f = 0; f < task_.common->mask_function_count; ++f)
      load_function(task_.common->mask_functions[f], key, present);
  }

  HWY_INLINE auto hidden(std::int64_t, int r, int c) const { return words_.hidden(r, c); }

  static void hide(const AttentionTask& task, std::int64_t first, std::int64_t last, T* logits, T entry) {
    for (std::size_t f = 0; f < task.common->mask_function_count; ++f) {
      std::uint8_t visible[kChunkKeys];
      task.common->mask_functions[f].fill({.first = pair_of(task, 0, first),
                                           .queries = 1,
                                           .keys = static_cast<std::int32_t>(last - first),
                                           .query_step = kChunkKeys,
                                           .key_step = 1,
                                           .at = visible});
      for (std::int64_t j = first; j < last; ++j) {
        if (visible[j - first] == 0) logits[j - first] = entry;
      }
    }
  }

 private:
  using Words = MaskWords<T, kVectors>;
  using Index = typename Words::Index;
  using Word = typename Words::Word;
  static constexpr int kColumns = Words::kColumns;

  HWY_NOINLINE void load_function(const MaskFunction& function, std::int64_t key, std::int64_t rows) {
    std::uint8_t visible[kTileRows * kColumns];
    function.fill({.first = pair_of(task_, begin_, key),
                   .queries = static_cast<std::int32_t>(count_),
                   .keys = static_cast<std::int32_t>(rows),
                   .query_step = 1,
                   .key_step = kColumns,
                   .at = visible});
    for (std::int64_t r = 0; r < rows; ++r) {
      const int shift = static_cast<int>(8 * (r % Words::kRows) + 7);
      for (std::int64_t i = 0; i < count_; ++i) {
        const Word hidden = static_cast<Word>(visible[r * kColumns + i] == 0) << shift;
        words_.at[r / Words::kRows][i] &= static_cast<Index>(~hidden);
      }
    }
  }

  const AttentionTask& task_;
  const std::int64_t begin_, count_;
  Words words_;
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
