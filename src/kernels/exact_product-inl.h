// How the two products of attention take their operands: as they are. (In pairs of bf16: reduced_product-inl.h.)
// Included once per CPU target.

#if defined(QKV_KERNELS_EXACT_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_EXACT_PRODUCT_INL_H_
#undef QKV_KERNELS_EXACT_PRODUCT_INL_H_
#else
#define QKV_KERNELS_EXACT_PRODUCT_INL_H_
#endif

#include "kernels/accumulate-inl.h"
#include "kernels/rows-inl.h"
#include "kernels/softmax_state-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

struct ExactProduct {
  using Step = MultiplyAdd;

  // Words of the accumulation's width that hold `size` factors.
  static std::int64_t words(std::int64_t size) { return size; }

  // Brings the right operand [size][kVectors] into words, where it lies.
  template <int kVectors, class T>
  static void pack(T*, std::int64_t) {}

  // kTileRows rows of keys in words, from row `first` of `count`; `step` tells how far apart they are.
  template <class T, class S>
  static HWY_INLINE const T* key_rows(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t size,
                                      T* buffer, std::int64_t& step) {
    return tile_rows<T, S>(rows, first, count, size, buffer, step);
  }

  // Rows of values from `first` on, as many before `last` as accumulate() takes at a time.
  template <class S>
  static HWY_INLINE KeyRows<S> value_rows(const Rows& rows, std::int64_t first, std::int64_t last) {
    return rows_from<S>(rows, first, last);
  }

  // The weight of a logit that lies x above the maximum.
  template <Unit kUnit, class T>
  static HWY_INLINE Vec<T> weight(Vec<T> x) {
    return power<kUnit, T>(x);
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
