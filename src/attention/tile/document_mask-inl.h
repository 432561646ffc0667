// Documents whose keys are scattered: those of other numbers in between are hidden. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_DOCUMENT_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_DOCUMENT_MASK_INL_H_
#undef QKV_ATTENTION_TILE_DOCUMENT_MASK_INL_H_
#else
#define QKV_ATTENTION_TILE_DOCUMENT_MASK_INL_H_
#endif

#include "attention/tile/mask_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

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

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
