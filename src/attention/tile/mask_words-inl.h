// Visible pairs of a tile in bytes: the top bit of byte r of a lane says whether its query sees key r. Included once
// per CPU target.

#if defined(QKV_ATTENTION_TILE_MASK_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_MASK_WORDS_INL_H_
#undef QKV_ATTENTION_TILE_MASK_WORDS_INL_H_
#else
#define QKV_ATTENTION_TILE_MASK_WORDS_INL_H_
#endif

#include <algorithm>

#include "core/mathematics.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
struct MaskWords {
  using Index = hwy::MakeSigned<T>;
  using Word = hwy::MakeUnsigned<T>;
  static constexpr int kColumns = kVectors * kLanes<T>;
  static constexpr int kRows = sizeof(T);  // keys whose bytes fit a lane
  static constexpr int kWords = divide_up(kTileRows, kRows);

  HWY_INLINE auto hidden(int r, int c) const {
    const hn::RebindToSigned<Tag<T>> index_tag;
    const auto word = hn::Load(index_tag, at[r / kRows] + c * kLanes<T>);
    const auto bit = hn::Set(index_tag, static_cast<Index>(Word{0x80} << (8 * (r % kRows))));
    return hn::Eq(hn::And(word, bit), hn::Zero(index_tag));
  }

  // Of queries that see the same keys.
  HWY_INLINE auto hidden_from_all(int r) const {
    const hn::RebindToSigned<Tag<T>> index_tag;
    const auto bit = static_cast<Index>(Word{0x80} << (8 * (r % kRows)));
    return hn::Eq(hn::Set(index_tag, static_cast<Index>(at[r / kRows][0] & bit)), hn::Zero(index_tag));
  }

  // All lanes become the first one.
  void repeat_first() {
    const hn::RebindToSigned<Tag<T>> index_tag;
    for (int w = 0; w < kWords; ++w) {
      const auto word = hn::Set(index_tag, at[w][0]);
      for (int c = 0; c < kVectors; ++c) hn::Store(word, index_tag, at[w] + c * kLanes<T>);
    }
  }

  HWY_ALIGN Index at[kWords][kColumns] = {};
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
