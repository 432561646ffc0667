// Visible pairs of a tile in bytes: the top bit of byte r of a lane says whether its query sees key r. Included once
// per CPU target.

#if defined(QKV_ATTENTION_TILE_MASK_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_MASK_WORDS_INL_H_
#undef QKV_ATTENTION_TILE_MASK_WORDS_INL_H_
#else
#define QKV_ATTENTION_TILE_MASK_WORDS_INL_H_
#endif

#include <algorithm>

#include "core/divide_up.h"
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

  HWY_ALIGN Index at[kWords][kColumns] = {};
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
