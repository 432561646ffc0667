// What the masks of single pairs know of a tile, what hides single numbers in words of bytes, and the one that compares
// numbers. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_MASK_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_MASK_LANES_INL_H_
#undef QKV_ATTENTION_TILE_MASK_LANES_INL_H_
#else
#define QKV_ATTENTION_TILE_MASK_LANES_INL_H_
#endif

#include <algorithm>

#include "attention/tile/attention_task.h"
#include "core/mathematics.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Visible pairs of a tile in bytes: the top bit of byte r of a lane says whether its query sees key r.
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

// What a block of queries sees of a tile, so far: vectors of which some query sees some key, and those of which every
// query sees every key.
template <int kVectors>
struct SeenTile {
  bool some[kVectors];
  bool every[kVectors];
};

// A number of each query; keys with another number are hidden from it.
template <class T, int kVectors>
class EqualNumbers {
 public:
  using Index = hwy::MakeSigned<T>;

  template <class Number>
  void prepare(std::int64_t count, const Number& number_of_query) {
    for (std::int64_t i = 0; i < kVectors * kLanes<T>; ++i) {
      own_[i] = static_cast<Index>(number_of_query(i < count ? i : 0));
    }
  }

  bool has(Index number, std::int64_t count) const { return std::find(own_, own_ + count, number) != own_ + count; }

  // Keys first <= j < last of the tile.
  template <class Number>
  void load(std::int64_t first, std::int64_t last, const Number& number_of_key, SeenTile<kVectors>& seen) const {
    const hn::RebindToSigned<Tag<T>> index_tag;
    bool found[kVectors] = {};
    for (std::int64_t j = first; j < last; ++j) {
      const auto number = static_cast<Index>(number_of_key(j));
      if (j > first && number == static_cast<Index>(number_of_key(j - 1))) continue;
      for (int c = 0; c < kVectors; ++c) {
        const auto own = hn::Load(index_tag, own_ + c * kLanes<T>);
        const auto same = hn::Eq(own, hn::Set(index_tag, number));
        found[c] = found[c] || !hn::AllFalse(index_tag, same);
        seen.every[c] = seen.every[c] && hn::AllTrue(index_tag, same);
      }
    }
    for (int c = 0; c < kVectors; ++c) seen.some[c] = seen.some[c] && found[c];
  }

  HWY_INLINE auto hidden(std::int64_t number, int c) const {
    const hn::RebindToSigned<Tag<T>> index_tag;
    const auto own = hn::Load(index_tag, own_ + c * kLanes<T>);
    return hn::Ne(own, hn::Set(index_tag, static_cast<Index>(number)));
  }

 private:
  HWY_ALIGN Index own_[kVectors * kLanes<T>] = {};
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
