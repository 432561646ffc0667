// The masks that hide single pairs inside the intervals of keys: the list of them, and what they share. Each is a class
//   M(task, begin, count)            for queries begin <= i < begin + count of a head, one a lane;
//   is_on()                          false: it hides nothing;
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
#include "attention/tile/document_mask-inl.h"
#include "attention/tile/function_mask-inl.h"
#include "attention/tile/step_mask-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// All of them. A new one is a file, a line in each function, and a word in is_masked_by_element() (attention_task.h).
template <class T, int kVectors>
class ElementMasks {
 public:
  ElementMasks(const AttentionTask& task, std::int64_t begin, std::int64_t count)
      : booleans_(task, begin, count),
        documents_(task, begin, count),
        step_(task, begin, count),
        functions_(task, begin, count) {}

  // visit(mask) for those of `masks` that are on.
  template <class Masks, class Visit>
  static HWY_INLINE void each(Masks& masks, const Visit& visit) {
    if (masks.booleans_.is_on()) visit(masks.booleans_);
    if (masks.documents_.is_on()) visit(masks.documents_);
    if (masks.step_.is_on()) visit(masks.step_);
    if (masks.functions_.is_on()) visit(masks.functions_);
  }

  static void hide(const AttentionTask& task, std::int64_t first, std::int64_t last, T* logits, T entry) {
    BooleanMask<T, kVectors>::hide(task, first, last, logits, entry);
    DocumentMask<T, kVectors>::hide(task, first, last, logits, entry);
    StepMask<T, kVectors>::hide(task, first, last, logits, entry);
    FunctionMask<T, kVectors>::hide(task, first, last, logits, entry);
  }

 private:
  BooleanMask<T, kVectors> booleans_;
  DocumentMask<T, kVectors> documents_;
  StepMask<T, kVectors> step_;
  FunctionMask<T, kVectors> functions_;
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
