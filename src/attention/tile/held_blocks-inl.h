// Blocks of keys and values in the form in which a product takes them, where that is not how they lie in memory:
// converted when they are first needed and kept from one block of queries to the next. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_HELD_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_HELD_BLOCKS_INL_H_
#undef QKV_ATTENTION_TILE_HELD_BLOCKS_INL_H_
#else
#define QKV_ATTENTION_TILE_HELD_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <bit>

#include "attention/tile/attention_task.h"
#include "simd/scratch.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// All of a head's, if they fit into kMostBytes. Lies at the beginning of a thread's scratch, which it shares with the
// calls for other heads.
class HeldBlocks {
 public:
  // Floats that hold a key, and a value.
  struct Widths {
    std::int64_t key, value;
  };

  HeldBlocks() = default;

  // `memory`: bytes() of them, of which Scratch::kFreshBytes are 0 before the first use.
  HeldBlocks(const AttentionTask& task, Widths widths, std::size_t other_bytes, std::byte* memory)
      : widths_(widths),
        shift_(shift(widths, other_bytes)),
        slots_(slots(task, widths, other_bytes)),
        held_(reinterpret_cast<Held*>(memory)),
        keys_(reinterpret_cast<float*>(memory + kHeldBytes)),
        values_(keys_ + (std::int64_t{slots_} << shift_) * widths.key) {
    const bool same = held_->key == task.key.data && held_->value == task.value.data &&
                      held_->pages == task.key.pages && held_->k_len == task.k_len && held_->slots == slots_ &&
                      held_->shift == shift_;
    if (!same) *held_ = {task.key.data, task.value.data, task.key.pages, task.k_len, slots_, shift_, {}, {}, {}};
  }

  // `other_bytes`: of the thread's scratch that are used for something else.
  static std::size_t bytes(const AttentionTask& task, Widths widths, std::size_t other_bytes) {
    return kHeldBytes + slots(task, widths, other_bytes) * slot_bytes(widths, other_bytes);
  }

  // Keys that are held at once: multiples of kBlockKeys, at least one.
  static std::int64_t keys(const AttentionTask& task, Widths widths, std::size_t other_bytes) {
    const std::int64_t keys = std::int64_t{slots(task, widths, other_bytes)} << shift(widths, other_bytes);
    return std::max(keys / kBlockKeys, std::int64_t{1}) * kBlockKeys;
  }

  // A word that goes with the values of the block that holds key `key`.
  std::uint32_t& note(std::int64_t key) const { return held_->notes[(key >> shift_) % slots_]; }

  bool is_on() const { return held_ != nullptr; }

  // Of the block that holds key `key`.
  std::int64_t end_of_block(std::int64_t key) const { return ((key >> shift_) + 1) << shift_; }

  // Where key `key` is held. convert(first, last, to) brings a block there.
  template <class Convert>
  HWY_INLINE const float* key_at(std::int64_t key, const Convert& convert) const {
    return at(key, held_->keys, keys_, widths_.key, convert);
  }

  template <class Convert>
  HWY_INLINE const float* value_at(std::int64_t key, const Convert& convert) const {
    return at(key, held_->values, values_, widths_.value, convert);
  }

 private:
  static constexpr std::int64_t kMostSlots = 16;
  static constexpr std::size_t kMostBytes = 512 * 1024;                    // half of a usual second-level cache
  static constexpr std::size_t kMostScratch = Scratch::kMostBytes - 4096;  // of a thread, with everything else
  static constexpr std::size_t kHeldBytes = Scratch::kFreshBytes;

  // Of which head, and what each slot holds: a block's number plus 1, or 0: nothing. Block b has slot b % slots.
  struct Held {
    const std::byte *key, *value;
    const std::int32_t* pages;
    std::int64_t k_len;
    std::uint32_t slots;
    int shift;
    std::uint32_t keys[kMostSlots], values[kMostSlots], notes[kMostSlots];
  };
  static_assert(sizeof(Held) <= kHeldBytes);

  static std::size_t budget(std::size_t other_bytes) {
    const std::size_t used = other_bytes + kHeldBytes;
    return std::min(kMostBytes, used < kMostScratch ? kMostScratch - used : 0);
  }

  static std::size_t key_bytes(Widths widths) {
    return sizeof(float) * static_cast<std::size_t>(widths.key + widths.value);
  }

  // Keys of a block, as a power of 2.
  static int shift(Widths widths, std::size_t other_bytes) {
    int shift = std::countr_zero(static_cast<std::uint64_t>(kBlockKeys));
    while ((1 << shift) > kTileRows && key_bytes(widths) << shift > budget(other_bytes)) --shift;
    return shift;
  }

  static std::size_t slot_bytes(Widths widths, std::size_t other_bytes) {
    return key_bytes(widths) << shift(widths, other_bytes);
  }

  static std::uint32_t slots(const AttentionTask& task, Widths widths, std::size_t other_bytes) {
    const std::int64_t fitting = static_cast<std::int64_t>(budget(other_bytes) / slot_bytes(widths, other_bytes));
    const std::int64_t blocks = ((task.k_len - 1) >> shift(widths, other_bytes)) + 1;
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(std::min(fitting, blocks), 1, kMostSlots));
  }

  template <class Convert>
  HWY_INLINE const float* at(std::int64_t key, std::uint32_t* held, float* floats, std::int64_t width,
                             const Convert& convert) const {
    const auto block = static_cast<std::uint32_t>(key >> shift_);
    const std::int64_t slot = block % slots_, first = std::int64_t{block} << shift_;
    float* to = floats + (slot << shift_) * width;
    if (HWY_UNLIKELY(held[slot] != block + 1)) {
      held[slot] = block + 1;
      convert(first, std::min(first + (std::int64_t{1} << shift_), held_->k_len), to);
    }
    return to + (key - first) * width;
  }

  Widths widths_{};
  int shift_ = 0;
  std::uint32_t slots_ = 0;
  Held* held_ = nullptr;
  float* keys_ = nullptr;    // [slots][keys of a block][widths.key]
  float* values_ = nullptr;  // [slots][keys of a block][widths.value]
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
