// Boolean planes, read as bytes, or known for 16 queries and 8 keys at a time. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_BOOLEAN_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_BOOLEAN_MASK_INL_H_
#undef QKV_ATTENTION_TILE_BOOLEAN_MASK_INL_H_
#else
#define QKV_ATTENTION_TILE_BOOLEAN_MASK_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "attention/tile/mask_lanes-inl.h"
#include "attention/tile/mask_words-inl.h"
#include "core/compiled_mask.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

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

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
