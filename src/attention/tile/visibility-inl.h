// Which keys the queries of a block see: an interval of keys per query, from causal, window, prefix, lengths and
// documents, and inside it the masks of single pairs. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_VISIBILITY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_VISIBILITY_INL_H_
#undef QKV_ATTENTION_TILE_VISIBILITY_INL_H_
#else
#define QKV_ATTENTION_TILE_VISIBILITY_INL_H_
#endif

#include <algorithm>

#include "attention/tile/attention_task.h"
#include "attention/tile/element_masks-inl.h"
#include "attention/tile/interval_masks.h"
#include "attention/tile/softmax_state-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
class Visibility {
 public:
  using Lanes = hn::Mask<Tag<T>>;

  Visibility(const AttentionTask& task, std::int64_t begin, std::int64_t count)
      : by_element_(ElementMasks<T, kVectors>::is_on(task)),
        keys_alone_(ElementMasks<T, kVectors>::hides_keys(task)),
        masks_(task, begin, count) {
    // Lanes without a query see everything and decide nothing.
    std::fill(first_, first_ + kColumns, Index{0});
    std::fill(last_, last_ + kColumns, std::numeric_limits<Index>::max());
    std::fill(vectors_, vectors_ + kVectors, kNone);
    std::fill(vectors_all_, vectors_all_ + kVectors, kAll);
    const auto widen = [](KeyRange& range, const KeyRange& by) {
      if (by.first < by.last) range = {std::min(range.first, by.first), std::max(range.last, by.last)};
    };
    const auto narrow = [](KeyRange& range, const KeyRange& by) {
      range = {std::max(range.first, by.first), std::min(range.last, by.last)};
    };
    // Where neither documents nor several heads are in between, keys move on with the queries, or stay.
    const KeyRange early = keys_of_query(task, begin), late = keys_of_query(task, begin + count - 1);
    if (early == late && task.document_keys == nullptr && task.period == 0) {
      std::fill(first_, first_ + count, static_cast<Index>(early.first));
      std::fill(last_, last_ + count, static_cast<Index>(early.last));
      for (std::int64_t i = 0; i < count; i += kLanes<T>) {
        widen(vectors_[i / kLanes<T>], early);
        vectors_all_[i / kLanes<T>] = early;
      }
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        const KeyRange keys = keys_of_query(task, begin + i);
        first_[i] = static_cast<Index>(keys.first);
        last_[i] = static_cast<Index>(keys.last);
        widen(vectors_[i / kLanes<T>], keys);
        narrow(vectors_all_[i / kLanes<T>], keys);
      }
    }
    for (const KeyRange& vector : vectors_) widen(some_, vector);
    for (const KeyRange& vector : vectors_all_) narrow(all_, vector);
    some_.first = std::min(some_.first, some_.last);
  }

  // No query sees a key outside first_key() <= j < last_key().
  std::int64_t first_key() const { return some_.first; }
  std::int64_t last_key() const { return some_.last; }

  // Whether every query sees keys key ... key + rows - 1.
  bool sees_all(std::int64_t key, std::int64_t rows) const {
    return !by_element_ && key >= all_.first && key + rows <= all_.last;
  }

  // Keys first <= j < last of a block, of up to 512 keys: false if one of the masks hides them all from all queries.
  bool has_visible(std::int64_t first, std::int64_t last) const {
    bool visible = true;
    masks_.each(masks_, [&](const auto& mask) { visible = visible && mask.has_visible(first, last); });
    return visible;
  }

  // Vectors of queries, begin <= c < end.
  struct VectorRange {
    int begin, end;
    bool operator==(const VectorRange&) const = default;
  };

  // Looks at the tile of keys that begins at `key`. What follows tells of that tile.
  void load(std::int64_t key) {
    std::fill(seen_.some, seen_.some + kVectors, true);
    std::fill(seen_.every, seen_.every + kVectors, true);
    masks_.each(masks_, [&](auto& mask) { mask.load(key, seen_); });
  }

  enum class Coverage { none, some, all };

  // What the queries see of the tile; intervals alone leave something of it.
  Coverage coverage(std::int64_t key) const {
    if (std::find(seen_.some, seen_.some + kVectors, true) == seen_.some + kVectors) return Coverage::none;
    return see_all(key, {0, kVectors}) ? Coverage::all : Coverage::some;
  }

  // Whether these vectors see all of the tile.
  bool see_all(std::int64_t key, VectorRange range) const {
    bool all = true;
    for (int c = range.begin; c < range.end; ++c) {
      all = all && seen_.every[c] && key >= vectors_all_[c].first && key + kTileRows <= vectors_all_[c].last;
    }
    return all;
  }

  // The other vectors of queries see nothing of the tile. Holds at least one.
  VectorRange vectors_seeing(std::int64_t key) const {
    const auto sees = [&](int c) {
      return seen_.some[c] && key < vectors_[c].last && key + kTileRows > vectors_[c].first;
    };
    VectorRange range{0, kVectors};
    while (range.begin + 1 < range.end && !sees(range.begin)) ++range.begin;
    while (range.begin + 1 < range.end && !sees(range.end - 1)) --range.end;
    return range;
  }

  // Whether each key of the tile is hidden from all queries or from none.
  bool hides_keys(std::int64_t key) const { return keys_alone_ && key >= all_.first && key + kTileRows <= all_.last; }

  // All lanes, where the tile's key r is so hidden.
  HWY_INLINE Lanes hidden_key(int r) const { return hn::RebindMask(Tag<T>(), masks_.hidden_key(r)); }

  // Lanes of vector c whose query does not see key + r.
  HWY_INLINE auto hidden(std::int64_t key, int r, int c) const {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> index_tag;
    const auto j = hn::Set(index_tag, static_cast<Index>(key + r));
    const auto first = hn::Load(index_tag, first_ + c * kLanes<T>);
    const auto last = hn::Load(index_tag, last_ + c * kLanes<T>);
    auto hidden = hn::Or(hn::Lt(j, first), hn::Not(hn::Lt(j, last)));
    if (by_element_) masks_.each(masks_, [&](const auto& mask) { hidden = hn::Or(hidden, mask.hidden(key, r, c)); });
    return hn::RebindMask(d, hidden);
  }

  // Logits of hidden keys become -infinity. The tile's first vector is vector `first`. `lanes`: those of hidden().
  template <int kRows, int kCount>
  HWY_INLINE void hide(std::int64_t key, Vec<T> (&tile)[kRows][kCount], int first,
                       Lanes (&lanes)[kRows][kCount]) const {
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kCount; ++c) {
        lanes[r][c] = hidden(key, r, first + c);
        tile[r][c] = hn::IfThenElse(lanes[r][c], hn::Set(Tag<T>(), -kInfinity<T>), tile[r][c]);
      }
    }
  }
  template <int kRows, int kCount>
  HWY_INLINE void hide(std::int64_t key, Vec<T> (&tile)[kRows][kCount], int first = 0) const {
    Lanes lanes[kRows][kCount];
    hide(key, tile, first, lanes);
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  static constexpr KeyRange kNone{std::numeric_limits<std::int64_t>::max(), 0};
  static constexpr KeyRange kAll{0, std::numeric_limits<std::int64_t>::max()};
  using Index = hwy::MakeSigned<T>;

  const bool by_element_;  // intervals do not tell all
  const bool keys_alone_;  // what else there is hides keys from all queries
  ElementMasks<T, kVectors> masks_;
  KeyRange some_ = kNone;           // seen by some query
  KeyRange all_ = kAll;             // seen by every one
  KeyRange vectors_[kVectors];      // seen by some query of the vector
  KeyRange vectors_all_[kVectors];  // seen by every one of the vector
  HWY_ALIGN Index first_[kColumns], last_[kColumns];
  SeenTile<kVectors> seen_{};  // of the tile loaded last, as the masks tell
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
