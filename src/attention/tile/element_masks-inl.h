// The masks that hide single pairs inside the intervals of keys, and the list of them at the end. Each is a class
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

#include <algorithm>
#include <cstring>

#include "attention/options/compiled_mask.h"
#include "attention/tile/attention_task.h"
#include "core/mathematics.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Visible pairs of a tile in bytes: the top bit of byte r of a lane says whether its query sees key r.
template <class T, int kVectors>
struct MaskWords {
  using Index = hwy::MakeSigned<T>;
  using Word = hwy::MakeUnsigned<T>;
  static constexpr int kColumns = kVectors * kLanes<T>;
  static constexpr int kRows = sizeof(T);  // keys whose bytes fit a lane
  static constexpr int kWords = divide_up(kTileRows, kRows);

  HWY_INLINE auto hidden(int r, int c) const {
    const hn::RebindToSigned<Tag<T>> index_tag;
    const auto word = hn::Load(index_tag, at[r / kRows] + c * kLanes<T>);
    const auto bit = hn::Set(index_tag, static_cast<Index>(Word{0x80} << (8 * (r % kRows))));
    return hn::Eq(hn::And(word, bit), hn::Zero(index_tag));
  }

  // Of queries that see the same keys.
  HWY_INLINE auto hidden_from_all(int r) const {
    const hn::RebindToSigned<Tag<T>> index_tag;
    const auto bit = static_cast<Index>(Word{0x80} << (8 * (r % kRows)));
    return hn::Eq(hn::Set(index_tag, static_cast<Index>(at[r / kRows][0] & bit)), hn::Zero(index_tag));
  }

  // All lanes become the first one.
  void repeat_first() {
    const hn::RebindToSigned<Tag<T>> index_tag;
    for (int w = 0; w < kWords; ++w) {
      const auto word = hn::Set(index_tag, at[w][0]);
      for (int c = 0; c < kVectors; ++c) hn::Store(word, index_tag, at[w] + c * kLanes<T>);
    }
  }

  HWY_ALIGN Index at[kWords][kColumns] = {};
};

// What a block of queries sees of a tile, so far: vectors of which some query sees some key, and those of which every
// query sees every key.
template <int kVectors>
struct SeenTile {
  bool some[kVectors];
  bool every[kVectors];
};

// A number of each query; keys with another number are hidden from it.
template <class T, int kVectors>
class EqualNumbers {
 public:
  using Index = hwy::MakeSigned<T>;

  template <class Number>
  void prepare(std::int64_t count, const Number& number_of_query) {
    for (std::int64_t i = 0; i < kVectors * kLanes<T>; ++i) {
      own_[i] = static_cast<Index>(number_of_query(i < count ? i : 0));
    }
  }

  bool has(Index number, std::int64_t count) const { return std::find(own_, own_ + count, number) != own_ + count; }

  // Keys first <= j < last of the tile.
  template <class Number>
  void load(std::int64_t first, std::int64_t last, const Number& number_of_key, SeenTile<kVectors>& seen) const {
    const hn::RebindToSigned<Tag<T>> index_tag;
    bool found[kVectors] = {};
    for (std::int64_t j = first; j < last; ++j) {
      const auto number = static_cast<Index>(number_of_key(j));
      if (j > first && number == static_cast<Index>(number_of_key(j - 1))) continue;
      for (int c = 0; c < kVectors; ++c) {
        const auto own = hn::Load(index_tag, own_ + c * kLanes<T>);
        const auto same = hn::Eq(own, hn::Set(index_tag, number));
        found[c] = found[c] || !hn::AllFalse(index_tag, same);
        seen.every[c] = seen.every[c] && hn::AllTrue(index_tag, same);
      }
    }
    for (int c = 0; c < kVectors; ++c) seen.some[c] = seen.some[c] && found[c];
  }

  HWY_INLINE auto hidden(std::int64_t number, int c) const {
    const hn::RebindToSigned<Tag<T>> index_tag;
    const auto own = hn::Load(index_tag, own_ + c * kLanes<T>);
    return hn::Ne(own, hn::Set(index_tag, static_cast<Index>(number)));
  }

 private:
  HWY_ALIGN Index own_[kVectors * kLanes<T>] = {};
};

// Boolean planes, read as bytes, or known for 16 queries and 8 keys at a time.
template <class T, int kVectors>
class BooleanMask {
 public:
  BooleanMask(const AttentionTask& task, std::int64_t begin, std::int64_t count)
      : task_(task), begin_(begin), count_(count) {}

  static bool is_on(const AttentionTask& task) { return task.common->boolean_count != 0; }

  // Whether a key is hidden from all queries or from none: padding.
  static bool hides_keys(const AttentionTask& task) {
    const auto is_row = [](const Plane& plane) { return plane.query_step == 0; };
    return is_on(task) && std::all_of(task.booleans, task.booleans + task.common->boolean_count, is_row);
  }

  // Of up to 512 keys: as far as blocks tell.
  bool has_visible(std::int64_t first, std::int64_t last) const {
    for (int p = 0; p < task_.common->boolean_count; ++p) {
      const PlaneBlocks& blocks = task_.boolean_blocks[p];
      if (blocks.some == nullptr) continue;
      const std::int64_t begin = first / BooleanBlocks::kKeys, end = (last - 1) / BooleanBlocks::kKeys + 1;
      const std::uint64_t bits = (~std::uint64_t{0} >> (64 - (end - begin))) << begin % 64;
      std::uint64_t found = 0;
      for_groups(0, count_, [&](std::int64_t group) {
        found |= blocks.some[group * blocks.group_step + first / BooleanBlocks::kWordKeys] & bits;
      });
      if (found == 0) return false;
    }
    return true;
  }

  void load(std::int64_t key, SeenTile<kVectors>& seen) {
    if (hides_keys_ || !load_blocks(key, seen)) load_bytes(key, seen);
  }

  // The same for all lanes, of keys that are hidden from all queries.
  HWY_INLINE auto hidden_key(int r) const { return words_.hidden_from_all(r); }

  HWY_INLINE auto hidden(std::int64_t, int r, int c) const { return words_.hidden(r, c); }

  static void hide(const AttentionTask& task, std::int64_t first, std::int64_t last, T* logits, T entry) {
    for (int p = 0; p < task.common->boolean_count; ++p) {
      const Plane& plane = task.booleans[p];
      for (std::int64_t j = first; j < last; ++j) {
        if (plane.data[j * plane.key_step] == std::byte{0}) logits[j - first] = entry;
      }
    }
  }

 private:
  using Words = MaskWords<T, kVectors>;
  using Index = typename Words::Index;

  // Groups of BooleanBlocks that the block's rows first <= i < last lie in: of several heads, those of all queries.
  template <class Visit>
  void for_groups(std::int64_t first, std::int64_t last, Visit visit) const {
    first = task_.period == 0 ? begin_ + first : 0;
    last = task_.period == 0 ? begin_ + last : task_.period;
    for (std::int64_t group = first / BooleanBlocks::kQueries; group * BooleanBlocks::kQueries < last; ++group) {
      visit(group);
    }
  }

  // Whether the planes' blocks tell all that bytes would: each vector sees everything of the tile, or nothing.
  bool load_blocks(std::int64_t key, SeenTile<kVectors>& seen) {
    bool some[kVectors], every[kVectors];
    std::fill(some, some + kVectors, true);
    std::fill(every, every + kVectors, true);
    for (int p = 0; p < task_.common->boolean_count; ++p) {
      const PlaneBlocks& blocks = task_.boolean_blocks[p];
      if (blocks.some == nullptr) return false;
      const std::int64_t word = key / BooleanBlocks::kWordKeys;
      const std::int64_t bit = key / BooleanBlocks::kKeys % 64;
      for (int c = 0; c < kVectors; ++c) {
        const std::int64_t first = c * kLanes<T>, last = std::min(first + kLanes<T>, count_);
        bool any = false;
        for_groups(first, last, [&](std::int64_t group) {
          const std::int64_t at = group * blocks.group_step + word;
          any = any || (blocks.some[at] >> bit & 1) != 0;
          every[c] = every[c] && (blocks.every[at] >> bit & 1) != 0;
        });
        some[c] = some[c] && any;
      }
    }
    for (int c = 0; c < kVectors; ++c) {
      if (some[c] && !every[c]) return false;
    }
    for (int c = 0; c < kVectors; ++c) {
      seen.some[c] = seen.some[c] && some[c];
      seen.every[c] = seen.every[c] && (some[c] || c * kLanes<T> >= count_);
      for (int w = 0; w < Words::kWords; ++w) {
        std::fill(words_.at[w] + c * kLanes<T>, words_.at[w] + (c + 1) * kLanes<T>, some[c] ? Index{-1} : Index{0});
      }
    }
    return true;
  }

  // Of the bytes of each query, the top bit says whether the key is visible in every plane.
  void load_bytes(std::int64_t key, SeenTile<kVectors>& seen) {
    constexpr std::uint64_t kTops = std::uint64_t{0x8080808080808080} >> (64 - 8 * kTileRows);
    const std::int64_t present = std::min<std::int64_t>(kTileRows, task_.k_len - key);
    const std::int64_t distinct = hides_keys_ ? 1 : count_;
    std::uint64_t in_every[kVectors], in_any[kVectors] = {};
    std::fill(in_every, in_every + kVectors, ~std::uint64_t{0});
    for (std::int64_t i = 0; i < distinct; ++i) {
      std::uint64_t visible = ~std::uint64_t{0};
      for (int p = 0; p < task_.common->boolean_count; ++p) {
        const Plane& plane = task_.booleans[p];
        const std::byte* bytes = plane.data + query_of_row(task_, begin_ + i) * plane.query_step + key * plane.key_step;
        std::uint64_t word = 0;
        if (plane.key_step == 1 && present == kTileRows) {
          std::memcpy(&word, bytes, kTileRows);
        } else {
          for (std::int64_t r = 0; r < present; ++r) {
            word |= static_cast<std::uint64_t>(bytes[r * plane.key_step]) << (8 * r);
          }
        }
        constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
        visible &= ((word & kLow) + kLow) | word;
      }
      for (int w = 0; w < Words::kWords; ++w)
        words_.at[w][i] = static_cast<typename Words::Word>(visible >> (8 * Words::kRows * (w % 8)));
      in_every[i / kLanes<T>] &= visible;
      in_any[i / kLanes<T>] |= visible;
    }
    if (hides_keys_) words_.repeat_first();
    for (int c = 0; c < kVectors; ++c) {
      seen.some[c] = seen.some[c] && (in_any[hides_keys_ ? 0 : c] & kTops) != 0;
      seen.every[c] = seen.every[c] && (in_every[hides_keys_ ? 0 : c] & kTops) == kTops;
    }
  }

  const AttentionTask& task_;
  const std::int64_t begin_, count_;
  const bool hides_keys_ = hides_keys(task_);
  Words words_;
};

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
