// The masks that hide single pairs inside the intervals of keys: the list of them, and what they share. Each is a class
//   M(task, begin, count)            for queries begin <= i < begin + count of a head, one a lane;
//   M::is_on(task)                   false: it hides nothing;
//   has_visible(first, last)         false if it hides keys first <= j < last from all of them;
//   load(key, tile)                  reads the tile of keys from `key` on and narrows what is seen of it;
//   hidden(key, r, c)                lanes of vector c whose query does not see key + r, of the tile loaded last;
//   M::hide(task, first, last, logits, entry)   for a single query: logits[j - first] = entry for each key that it
//   hides.
// Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_ELEMENT_MASKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_ELEMENT_MASKS_INL_H_
#undef QKV_ATTENTION_TILE_ELEMENT_MASKS_INL_H_
#else
#define QKV_ATTENTION_TILE_ELEMENT_MASKS_INL_H_
#endif

#include "attention/tile/boolean_mask-inl.h"
#include "attention/tile/mask_lanes-inl.h"
#include "attention/tile/mask_words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Documents whose keys are scattered: those of other numbers in between are hidden.
template <class T, int kVectors>
class DocumentMask {
 public:
  DocumentMask(const AttentionTask& task, std::int64_t begin, std::int64_t count) : task_(task), count_(count) {
    if (is_on(task))
      numbers_.prepare(count, [&](std::int64_t i) { return task.query_documents[query_of_row(task, begin + i)]; });
  }

  static bool is_on(const AttentionTask& task) { return task.key_documents != nullptr; }

  bool has_visible(std::int64_t first, std::int64_t last) const {
    for (std::int64_t j = first; j < last; ++j) {
      const std::int32_t document = task_.key_documents[j];
      if (j > first && document == task_.key_documents[j - 1]) continue;
      if (numbers_.has(document, count_)) return true;
    }
    return false;
  }

  void load(std::int64_t key, SeenTile<kVectors>& seen) const {
    const auto document = [this](std::int64_t j) { return task_.key_documents[j]; };
    numbers_.load(key, std::min(key + kTileRows, task_.k_len), document, seen);
  }

  // A tile may reach beyond the last key.
  HWY_INLINE auto hidden(std::int64_t key, int r, int c) const {
    return numbers_.hidden(task_.key_documents[std::min(key + r, task_.k_len - 1)], c);
  }

  static void hide(const AttentionTask& task, std::int64_t first, std::int64_t last, T* logits, T entry) {
    for (std::int64_t j = first; task.key_documents != nullptr && j < last; ++j) {
      if (task.key_documents[j] != *task.query_documents) logits[j - first] = entry;
    }
  }

 private:
  const AttentionTask& task_;
  const std::int64_t count_;
  EqualNumbers<T, kVectors> numbers_;
};

// The step of a dilated window: positions of a query and of its keys are equal modulo the step.
template <class T, int kVectors>
class StepMask {
 public:
  StepMask(const AttentionTask& task, std::int64_t begin, std::int64_t count) : task_(task) {
    if (is_on(task)) residues_.prepare(count, [&](std::int64_t i) { return residue_of_row(task, begin + i); });
  }

  static bool is_on(const AttentionTask& task) { return task.common->step > 1; }

  // Not computed: blocks mostly have more keys than a step is long, and tiles are checked one by one.
  bool has_visible(std::int64_t, std::int64_t) const { return true; }

  void load(std::int64_t key, SeenTile<kVectors>& seen) const {
    const auto residue = [this](std::int64_t j) { return residue_of_key(task_, j); };
    residues_.load(key, std::min(key + kTileRows, task_.k_len), residue, seen);
  }

  HWY_INLINE auto hidden(std::int64_t key, int r, int c) const {
    return residues_.hidden(residue_of_key(task_, key + r), c);
  }

  static void hide(const AttentionTask& task, std::int64_t first, std::int64_t last, T* logits, T entry) {
    for (std::int64_t j = first; task.common->step > 1 && j < last; ++j) {
      if (residue_of_key(task, j) != residue_of_row(task, 0)) logits[j - first] = entry;
    }
  }

 private:
  // Positions modulo the step: those of a row and of a key are equal where the step lets the key through.
  static std::int64_t residue_of_row(const AttentionTask& task, std::int64_t i) {
    const std::int64_t residue = (query_of_row(task, i) + task.offset) % task.common->step;
    return residue < 0 ? residue + task.common->step : residue;
  }
  static std::int64_t residue_of_key(const AttentionTask& task, std::int64_t j) { return j % task.common->step; }

  const AttentionTask& task_;
  EqualNumbers<T, kVectors> residues_;
};

// Masks that a user wrote, called for each pair.
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

template <class Booleans, class... Masks>
class MaskList : Booleans, Masks... {
 public:
  MaskList(const AttentionTask& task, std::int64_t begin, std::int64_t count)
      : Booleans(task, begin, count), Masks(task, begin, count)..., task_(task) {}

  // Whether intervals of keys do not tell all of the mask.
  static bool is_on(const AttentionTask& task) { return (Booleans::is_on(task) || ... || Masks::is_on(task)); }

  // Whether each key is hidden from all queries or from none.
  static bool hides_keys(const AttentionTask& task) {
    return Booleans::hides_keys(task) && !(Masks::is_on(task) || ...);
  }
  HWY_INLINE auto hidden_key(int r) const { return Booleans::hidden_key(r); }

  // visit(mask) for those of `masks` that are on.
  template <class Self, class Visit>
  static HWY_INLINE void each(Self& masks, const Visit& visit) {
    if (Booleans::is_on(masks.task_)) visit(masks.template get<Booleans>());
    ((Masks::is_on(masks.task_) ? visit(masks.template get<Masks>()) : void()), ...);
  }

  template <class T>
  static void hide(const AttentionTask& task, std::int64_t first, std::int64_t last, T* logits, T entry) {
    Booleans::hide(task, first, last, logits, entry);
    (Masks::hide(task, first, last, logits, entry), ...);
  }

 private:
  template <class Mask>
  Mask& get() {
    return *this;
  }
  template <class Mask>
  const Mask& get() const {
    return *this;
  }

  const AttentionTask& task_;
};

// All of them.
template <class T, int kVectors>
using ElementMasks =
    MaskList<BooleanMask<T, kVectors>, DocumentMask<T, kVectors>, StepMask<T, kVectors>, FunctionMask<T, kVectors>>;

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
