// The step of a dilated window: positions of a query and of its keys are equal modulo the step. Included once per CPU
// target.

#if defined(QKV_ATTENTION_TILE_STEP_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_STEP_MASK_INL_H_
#undef QKV_ATTENTION_TILE_STEP_MASK_INL_H_
#else
#define QKV_ATTENTION_TILE_STEP_MASK_INL_H_
#endif

#include "attention/tile/mask_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

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

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
