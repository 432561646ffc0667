// The walk of a block of queries over the keys, the same in every pass: blocks of keys, the tiles of each, and what the
// mask leaves of them. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_TILE_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_TILE_WALK_INL_H_
#undef QKV_ATTENTION_TILE_TILE_WALK_INL_H_
#else
#define QKV_ATTENTION_TILE_TILE_WALK_INL_H_
#endif

#include "attention/tile/visibility-inl.h"
#include "core/stop.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// visit(block, first, last, visible): keys first <= j < last of the block of kKeys keys that begins at `block`, for all
// blocks of which the queries' intervals of keys and from <= j < to have one. `visible`: false if the mask hides them
// all.
template <std::int64_t kKeys, class T, int kVectors, class Visit>
HWY_INLINE void walk_blocks(const Visibility<T, kVectors>& visibility, std::int64_t from, std::int64_t to,
                            const Visit& visit) {
  const std::int64_t first = visibility.first_key(), last = std::min(to, visibility.last_key());
  for (std::int64_t block = std::max(from, first / kKeys * kKeys); block < last; block += kKeys) {
    const std::int64_t begin = std::max(first, block), end = std::min(block + kKeys, last);
    const bool visible = visibility.has_visible(begin, end);
    if (!visible) check_stop();
    visit(block, begin, end, visible);
  }
}

// visit(key, coverage) for the tiles with keys first <= j < last. They begin at multiples of their rows, so that no
// query's sums depend on what its neighbours see. Where the coverage is not all, `visibility` tells of this tile.
template <class T, int kVectors, class Visit>
HWY_INLINE void walk_tiles(Visibility<T, kVectors>& visibility, std::int64_t first, std::int64_t last,
                           const Visit& visit) {
  using Coverage = typename Visibility<T, kVectors>::Coverage;
  for (std::int64_t key = first / kTileRows * kTileRows; key < last; key += kTileRows) {
    check_stop();
    if (visibility.sees_all(key, kTileRows)) {
      visit(key, Coverage::all);
    } else {
      visibility.load(key);
      visit(key, visibility.coverage(key));
    }
  }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
