// How the two products of attention take their operands: as they are, 16-bit ones widened, pages joined. (In pairs of
// bf16: reduced_product-inl.h.) Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_EXACT_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_EXACT_PRODUCT_INL_H_
#undef QKV_ATTENTION_TILE_EXACT_PRODUCT_INL_H_
#else
#define QKV_ATTENTION_TILE_EXACT_PRODUCT_INL_H_
#endif

#include <algorithm>

#include "attention/tile/accumulate-inl.h"
#include "attention/tile/held_blocks-inl.h"
#include "attention/tile/softmax_state-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Values from `first` on that are held in f32, as many before `last` as accumulate() takes at a time.
HWY_INLINE KeyRows<float> held_values(const HeldBlocks& held, const AttentionTask& task, std::int64_t first,
                                      std::int64_t last) {
  const std::int64_t size = task.common->value_dim, step = whole_vectors<float>(size);
  const float* rows = held.value_at(first, [&](std::int64_t begin, std::int64_t end, float* to) {
    read_rows(task.value, begin, end, size, to, step);
  });
  return {rows, step, std::min(last, held.end_of_block(first)) - first};
}

class ExactProduct {
 public:
  using Step = MultiplyAdd;
  static constexpr std::int64_t kGroupKeys = 0;  // keys are multiplied tile by tile
  static constexpr bool kIsCareful = false;      // Step multiplies all numbers right
  static constexpr bool kProjectsKeys = true;    // for additive scores

  // Keys and values are of the accumulation's type.
  ExactProduct() = default;

  // In `memory` 16-bit ones are widened, those that lie apart copied; of additive scores it holds what keys are
  // projected to.
  ExactProduct(const AttentionTask& task, std::size_t other_bytes, std::byte* memory) {
    if (is_held(task)) held_ = HeldBlocks(task, widths(task), other_bytes, memory);
  }

  static std::size_t bytes(const AttentionTask& task, std::size_t other_bytes) {
    return is_held(task) ? HeldBlocks::bytes(task, widths(task), other_bytes) : 0;
  }

  // Keys that stay there from one block of queries to the next; all, if none are.
  static std::int64_t keys_held(const AttentionTask& task, std::size_t other_bytes) {
    return is_held(task) ? HeldBlocks::keys(task, widths(task), other_bytes) : task.k_len;
  }

  // Words of the accumulation's width that hold `size` factors.
  static std::int64_t words(std::int64_t size) { return size; }

  // Rows of memory for a right operand, and for the weights of a block.
  static std::int64_t packed_rows(const AttentionTask&, std::int64_t size) { return size; }
  static std::int64_t weight_rows(const AttentionTask&) { return kBlockKeys; }

  // Brings the right operand [size][kVectors] into words, where it lies. Returns whether Step multiplies it right.
  template <int kVectors, class T>
  static bool pack(T*, std::int64_t) {
    return true;
  }

  // kTileRows rows of keys in words, from row `first` on; `step` tells how far apart they are.
  template <class T>
  HWY_INLINE const T* key_rows(const AttentionTask& task, std::int64_t first, T* buffer, std::int64_t& step) const {
    if constexpr (sizeof(T) == 4) {
      if (held_.is_on()) {
        step = widths(task).key;
        return held_.key_at(first, [&](std::int64_t begin, std::int64_t end, float* to) {
          read_rows(task.key, begin, end, task.common->key_dim, to, step);
          if (end % kTileRows != 0) std::fill_n(to + (end - begin) * step, (kTileRows - end % kTileRows) * step, 0.0f);
        });
      }
    }
    return tile_rows<T>(task.key, first, task.k_len, task.common->key_dim, buffer, step);
  }

  // W_k k of kTileRows keys of an additive score, from row `first` on; `step` tells how far apart they are. `keys` and
  // `hidden`: memory for those of a tile.
  template <class T>
  HWY_INLINE const T* hidden_rows(const AttentionTask& task, std::int64_t first, T* keys, T* hidden,
                                  std::int64_t& step) const {
    if constexpr (sizeof(T) == 4) {
      if (held_.is_on()) {
        step = widths(task).key;
        return held_.key_at(first, [&](std::int64_t begin, std::int64_t end, float* to) {
          for (; begin < end; begin += kTileRows, to += kTileRows * step) project_tile(task, begin, keys, to, step);
        });
      }
    }
    step = task.common->hidden;
    project_tile(task, first, keys, hidden, step);
    return hidden;
  }

  // Rows of values from `first` on, as many before `last` as accumulate() takes at a time.
  template <class T>
  HWY_INLINE KeyRows<T> value_rows(const AttentionTask& task, std::int64_t first, std::int64_t last) const {
    if constexpr (sizeof(T) == 4) {
      if (held_.is_on()) return held_values(held_, task, first, last);
    }
    return rows_from<T>(task.value, first, last);
  }

  // The weight of a logit that lies x above the maximum.
  template <Unit kUnit, class T>
  static HWY_INLINE Vec<T> weight(Vec<T> x) {
    return power<kUnit, T>(x);
  }

 private:
  // 16-bit keys are widened. Where several blocks of queries read them, those in pages come together: 16 rows at a time
  // are too few for the product with the values; and those of additive scores are projected once. Other rows that lie
  // apart, whose lines share few sets of a cache, come together for so many blocks that this pays for the copy.
  static bool is_held(const AttentionTask& task) {
    constexpr std::int64_t kManyBlocks = 8;
    const std::size_t size = size_of(task.key.type);
    if (size != 4) return size == 2;
    if (task.q_len <= kTileColumns<float>) return false;
    if (task.key.pages != nullptr || is_additive(task.common->score)) return true;
    return task.key.step > task.common->key_dim && task.q_len > kManyBlocks * kTileColumns<float>;
  }

  static HeldBlocks::Widths widths(const AttentionTask& task) {
    const CommonTask& common = *task.common;
    const std::int64_t key_dim = is_additive(common.score) ? common.hidden : common.key_dim;
    return {whole_vectors<float>(key_dim), whole_vectors<float>(common.value_dim)};
  }

  // W_k k of the tile's keys into rows `to_step` apart; those beyond the last one are 0. `buffer`: for the keys.
  template <class T>
  static HWY_NOINLINE void project_tile(const AttentionTask& task, std::int64_t first, T* buffer, T* to,
                                        std::int64_t to_step) {
    const std::int64_t size = task.common->key_dim, rows = std::min<std::int64_t>(kTileRows, task.k_len - first);
    const Rows& weights = task.common->score_w_key;
    read_rows(task.key, first, first + rows, size, buffer, size);
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      for (std::int64_t h = 0; h < task.common->hidden; ++h) {
        const T* of_hidden = reinterpret_cast<const T*>(weights.data) + h * weights.step;
        to[r * to_step + h] = r < rows ? dot(buffer + r * size, of_hidden, size) : T(0);
      }
    }
  }

  HeldBlocks held_;
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
