// A tile of gradients of logits [key][query] added to the gradient of a bias. Included once per CPU target.

#if defined(QKV_ATTENTION_BACKWARD_BIAS_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_BACKWARD_BIAS_GRADIENTS_INL_H_
#undef QKV_ATTENTION_BACKWARD_BIAS_GRADIENTS_INL_H_
#else
#define QKV_ATTENTION_BACKWARD_BIAS_GRADIENTS_INL_H_
#endif

#include "attention/tile/attention_task.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T>
T* element_of(const Plane& plane, std::int64_t query, std::int64_t key) {
  return reinterpret_cast<T*>(const_cast<std::byte*>(plane.data)) + query * plane.query_step + key * plane.key_step;
}

// plane(query + i, key + j) += tile[j][i] for j < keys, i < queries: in order of keys if the plane broadcasts along
// keys, else in order of queries. `spare`: as large as the tile.
template <int kVectors, class T>
void add_to_plane(const Plane& plane, std::int64_t query, std::int64_t queries, std::int64_t key, std::int64_t keys,
                  const T* tile, T* spare) {
  constexpr std::int64_t kColumns = kVectors * kLanes<T>;
  const Tag<T> d;
  if (plane.key_step == 0) {
    for (int c = 0; c < kVectors; ++c) {
      Vec<T> sum = hn::Zero(d);
      for (std::int64_t j = 0; j < keys; ++j) sum = hn::Add(sum, hn::Load(d, tile + j * kColumns + c * kLanes<T>));
      hn::Store(sum, d, spare + c * kLanes<T>);
    }
    for (std::int64_t i = 0; i < queries; ++i) *element_of<T>(plane, query + i, key) += spare[i];
    return;
  }
  transpose(tile, kColumns, keys, queries, spare, keys);
  for (std::int64_t i = 0; i < queries; ++i, spare += keys) {
    T* to = element_of<T>(plane, query + i, key);
    std::int64_t j = 0;
    if (plane.key_step == 1) {
      for (; j + kLanes<T> <= keys; j += kLanes<T>) {
        hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, spare + j)), d, to + j);
      }
    }
    for (; j < keys; ++j) to[j * plane.key_step] += spare[j];
  }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
