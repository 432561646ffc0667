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
#include "attention/tile/document_mask-inl.h"
#include "attention/tile/function_mask-inl.h"
#include "attention/tile/step_mask-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

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
