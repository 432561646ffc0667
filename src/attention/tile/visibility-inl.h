// Which keys the queries of a block see: an interval of keys per query, from causal, window, prefix, lengths and
// documents, and inside it boolean planes read as bytes, numbers of scattered documents, the step of a dilated window
// and a user's functions. Included once per CPU
// target.

#if defined(QKV_ATTENTION_TILE_VISIBILITY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_VISIBILITY_INL_H_
#undef QKV_ATTENTION_TILE_VISIBILITY_INL_H_
#else
#define QKV_ATTENTION_TILE_VISIBILITY_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "attention/tile/attention_task.h"
#include "attention/tile/softmax_state-inl.h"
#include "core/boolean_blocks.h"
#include "core/divide_up.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
class Visibility {
 public:
  Visibility(const AttentionTask& task, std::int64_t begin, std::int64_t count)
      : task_(task),
        begin_(begin),
        count_(count),
        by_element_(is_masked_by_element(task)),
        has_words_(task.boolean_count != 0 || task.mask_function_count != 0) {
    // Lanes without a query see everything and decide nothing.
    std::fill(first_, first_ + kColumns, Index{0});
    std::fill(last_, last_ + kColumns, std::numeric_limits<Index>::max());
    std::fill(vectors_, vectors_ + kVectors, kNone);
    const auto widen = [](KeyRange& range, const KeyRange& by) {
      if (by.first < by.last) range = {std::min(range.first, by.first), std::max(range.last, by.last)};
    };
    // Where neither documents nor several heads are in between, keys move on with the queries, or stay.
    const KeyRange early = keys_of_query(task, begin), late = keys_of_query(task, begin + count - 1);
    if (early == late && task.document_keys == nullptr && task.period == 0) {
      std::fill(first_, first_ + count, static_cast<Index>(early.first));
      std::fill(last_, last_ + count, static_cast<Index>(early.last));
      for (std::int64_t i = 0; i < count; i += kLanes<T>) widen(vectors_[i / kLanes<T>], early);
      all_ = early;
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        const KeyRange keys = keys_of_query(task, begin + i);
        first_[i] = static_cast<Index>(keys.first);
        last_[i] = static_cast<Index>(keys.last);
        widen(vectors_[i / kLanes<T>], keys);
        all_.first = std::max(all_.first, keys.first);
        all_.last = std::min(all_.last, keys.last);
      }
    }
    for (const KeyRange& vector : vectors_) widen(some_, vector);
    some_.first = std::min(some_.first, some_.last);
    for (std::int64_t i = 0; task.step > 1 && i < kColumns; ++i) {
      residues_[i] = static_cast<Index>(residue_of_row(task, begin + (i < count ? i : 0)));
    }
    if (task.query_documents == nullptr) return;
    for (std::int64_t i = 0; i < kColumns; ++i) {
      documents_[i] = task.query_documents[query_of_row(task, begin + (i < count ? i : 0))];
    }
  }

  // No query sees a key outside first_key() <= j < last_key().
  std::int64_t first_key() const { return some_.first; }
  std::int64_t last_key() const { return some_.last; }

  // Whether every query sees keys key ... key + rows - 1.
  bool sees_all(std::int64_t key, std::int64_t rows) const {
    return !by_element_ && key >= all_.first && key + rows <= all_.last;
  }

  // Keys first <= j < last of a block, of up to 512 keys: false if documents or blocks of booleans hide all of them
  // from all queries.
  bool has_visible(std::int64_t first, std::int64_t last) const {
    for (int p = 0; p < task_.boolean_count; ++p) {
      const PlaneBlocks& blocks = task_.boolean_blocks[p];
      if (blocks.some == nullptr) continue;
      const std::int64_t begin = first / BooleanBlocks::kKeys, end = (last - 1) / BooleanBlocks::kKeys + 1;
      const std::uint64_t bits = (~std::uint64_t{0} >> (64 - (end - begin))) << begin % 64;
      std::uint64_t found = 0;
      for_groups(0, count_, [&](std::int64_t group) {
        found |= blocks.some[group * blocks.group_step + first / BooleanBlocks::kWordKeys] & bits;
      });
      if (found == 0) return false;
    }
    return task_.key_documents == nullptr || meets_document(first, last);
  }

  // Vectors of queries, begin <= c < end.
  struct VectorRange {
    int begin, end;
    bool operator==(const VectorRange&) const = default;
  };

  // Looks at the tile of keys that begins at `key`. What follows tells of that tile.
  void load(std::int64_t key) {
    std::fill(sees_, sees_ + kVectors, true);
    every_ = task_.mask_function_count == 0;
    if (task_.key_documents != nullptr) {
      compare(documents_, key, [this](std::int64_t j) { return task_.key_documents[j]; });
    }
    if (task_.step > 1) compare(residues_, key, [this](std::int64_t j) { return residue_of_key(task_, j); });
    if (!has_words_) return;
    if (!look_at_blocks(key)) look_at_bytes(key);
    const std::int64_t present = std::min<std::int64_t>(kTileRows, task_.k_len - key);
    for (std::size_t f = 0; f < task_.mask_function_count; ++f) load_function(task_.mask_functions[f], key, present);
  }

  enum class Coverage { none, some, all };

  // What the queries see of the tile; intervals alone leave something of it.
  Coverage coverage(std::int64_t key) const {
    if (std::find(sees_, sees_ + kVectors, true) == sees_ + kVectors) return Coverage::none;
    const bool inside = key >= all_.first && key + kTileRows <= all_.last;
    return inside && every_ ? Coverage::all : Coverage::some;
  }

  // The other vectors of queries see nothing of the tile. Holds at least one.
  VectorRange vectors_seeing(std::int64_t key) const {
    const auto sees = [&](int c) { return sees_[c] && key < vectors_[c].last && key + kTileRows > vectors_[c].first; };
    VectorRange range{0, kVectors};
    while (range.begin + 1 < range.end && !sees(range.begin)) ++range.begin;
    while (range.begin + 1 < range.end && !sees(range.end - 1)) --range.end;
    return range;
  }

  // Lanes of vector c whose query does not see key + r.
  HWY_INLINE auto hidden(std::int64_t key, int r, int c) const {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> index_tag;
    const auto j = hn::Set(index_tag, static_cast<Index>(key + r));
    const auto first = hn::Load(index_tag, first_ + c * kLanes<T>);
    const auto last = hn::Load(index_tag, last_ + c * kLanes<T>);
    auto hidden = hn::Or(hn::Lt(j, first), hn::Not(hn::Lt(j, last)));
    if (has_words_) {
      const auto word = hn::Load(index_tag, words_[r / kWordRows] + c * kLanes<T>);
      const auto bit = hn::Set(index_tag, static_cast<Index>(Word{0x80} << (8 * (r % kWordRows))));
      hidden = hn::Or(hidden, hn::Eq(hn::And(word, bit), hn::Zero(index_tag)));
    }
    if (task_.key_documents != nullptr) {  // a tile may reach beyond the last key
      const auto document = task_.key_documents[std::min(key + r, task_.k_len - 1)];
      const auto own = hn::Load(index_tag, documents_ + c * kLanes<T>);
      hidden = hn::Or(hidden, hn::Ne(own, hn::Set(index_tag, static_cast<Index>(document))));
    }
    if (task_.step > 1) {
      const auto own = hn::Load(index_tag, residues_ + c * kLanes<T>);
      hidden = hn::Or(hidden, hn::Ne(own, hn::Set(index_tag, static_cast<Index>(residue_of_key(task_, key + r)))));
    }
    return hn::RebindMask(d, hidden);
  }

  // Logits of hidden keys become -infinity. The tile's first vector is vector `first`.
  template <int kRows, int kCount>
  HWY_INLINE void hide(std::int64_t key, Vec<T> (&tile)[kRows][kCount], int first = 0) const {
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kCount; ++c) {
        tile[r][c] = hn::IfThenElse(hidden(key, r, first + c), hn::Set(Tag<T>(), -kInfinity<T>), tile[r][c]);
      }
    }
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  static constexpr KeyRange kNone{std::numeric_limits<std::int64_t>::max(), 0};
  using Index = hwy::MakeSigned<T>;
  using Word = hwy::MakeUnsigned<T>;
  static constexpr int kWordRows = sizeof(T);  // keys whose bytes fit a lane
  static constexpr int kWords = divide_up(kTileRows, kWordRows);

  // Groups of BooleanBlocks that the block's rows first <= i < last lie in: of several heads, those of all queries.
  template <class Visit>
  void for_groups(std::int64_t first, std::int64_t last, Visit visit) const {
    first = task_.period == 0 ? begin_ + first : 0;
    last = task_.period == 0 ? begin_ + last : task_.period;
    for (std::int64_t group = first / BooleanBlocks::kQueries; group * BooleanBlocks::kQueries < last; ++group) {
      visit(group);
    }
  }

  // Whether one of keys first <= j < last has the document of one of the queries.
  bool meets_document(std::int64_t first, std::int64_t last) const {
    for (std::int64_t j = first; j < last; ++j) {
      const std::int32_t document = task_.key_documents[j];
      if (j > first && document == task_.key_documents[j - 1]) continue;
      for (std::int64_t i = 0; i < count_; ++i) {
        if (documents_[i] == document) return true;
      }
    }
    return false;
  }

  // Keys of the tile are visible where their number is the query's own.
  template <class Number>
  void compare(const Index* own_numbers, std::int64_t key, const Number& number_of) {
    const hn::RebindToSigned<Tag<T>> index_tag;
    bool found[kVectors] = {};
    const std::int64_t last = std::min(key + kTileRows, task_.k_len);
    for (std::int64_t j = key; j < last; ++j) {
      const auto number = static_cast<Index>(number_of(j));
      if (j > key && number == static_cast<Index>(number_of(j - 1))) continue;
      for (int c = 0; c < kVectors; ++c) {
        const auto own = hn::Load(index_tag, own_numbers + c * kLanes<T>);
        const auto same = hn::Eq(own, hn::Set(index_tag, number));
        found[c] = found[c] || !hn::AllFalse(index_tag, same);
        every_ = every_ && hn::AllTrue(index_tag, same);
      }
    }
    for (int c = 0; c < kVectors; ++c) sees_[c] = sees_[c] && found[c];
  }

  // Whether the planes' blocks tell all that bytes would: each vector sees everything of the tile, or nothing.
  bool look_at_blocks(std::int64_t key) {
    bool some[kVectors], every[kVectors];
    std::fill(some, some + kVectors, true);
    std::fill(every, every + kVectors, true);
    for (int p = 0; p < task_.boolean_count; ++p) {
      const PlaneBlocks& blocks = task_.boolean_blocks[p];
      if (blocks.some == nullptr) return false;
      const std::int64_t word = key / BooleanBlocks::kWordKeys;
      const std::int64_t bit = key / BooleanBlocks::kKeys % 64;
      for (int c = 0; c < kVectors; ++c) {
        const std::int64_t first = c * kLanes<T>, last = std::min(first + kLanes<T>, count_);
        bool any = false;
        for_groups(first, last, [&](std::int64_t group) {
          const std::int64_t at = group * blocks.group_step + word;
          any = any || (blocks.some[at] >> bit & 1) != 0;
          every[c] = every[c] && (blocks.every[at] >> bit & 1) != 0;
        });
        some[c] = some[c] && any;
      }
    }
    for (int c = 0; c < kVectors; ++c) {
      if (some[c] && !every[c]) return false;
    }
    for (int c = 0; c < kVectors; ++c) {
      sees_[c] = sees_[c] && some[c];
      every_ = every_ && (some[c] || c * kLanes<T> >= count_);
      for (int w = 0; w < kWords; ++w) {
        std::fill(words_[w] + c * kLanes<T>, words_[w] + (c + 1) * kLanes<T>, some[c] ? Index{-1} : Index{0});
      }
    }
    return true;
  }

  // Of the bytes of each query, the top bit says whether the key is visible in every plane.
  void look_at_bytes(std::int64_t key) {
    constexpr std::uint64_t kTops = std::uint64_t{0x8080808080808080} >> (64 - 8 * kTileRows);
    const std::int64_t present = std::min<std::int64_t>(kTileRows, task_.k_len - key);
    bool alike = true;  // padding: one row of bytes for all queries
    for (int p = 0; p < task_.boolean_count; ++p) alike = alike && task_.booleans[p].query_step == 0;
    const std::int64_t distinct = alike ? std::min<std::int64_t>(count_, 1) : count_;
    std::uint64_t in_every = ~std::uint64_t{0}, in_any[kVectors] = {};
    for (std::int64_t i = 0; i < distinct; ++i) {
      std::uint64_t visible = ~std::uint64_t{0};
      for (int p = 0; p < task_.boolean_count; ++p) {
        const Plane& plane = task_.booleans[p];
        const std::byte* bytes = plane.data + query_of_row(task_, begin_ + i) * plane.query_step + key * plane.key_step;
        std::uint64_t word = 0;
        if (plane.key_step == 1 && present == 8) {
          std::memcpy(&word, bytes, 8);
        } else {
          for (std::int64_t r = 0; r < present; ++r) {
            word |= static_cast<std::uint64_t>(bytes[r * plane.key_step]) << (8 * r);
          }
        }
        constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
        visible &= ((word & kLow) + kLow) | word;
      }
      for (int w = 0; w < kWords; ++w) words_[w][i] = static_cast<Word>(visible >> (8 * kWordRows * (w % 8)));
      in_every &= visible;
      in_any[i / kLanes<T>] |= visible;
    }
    for (int w = 0; w < kWords; ++w) {
      for (std::int64_t i = distinct; i < count_; ++i) words_[w][i] = words_[w][0];
    }
    every_ = every_ && (in_every & kTops) == kTops;
    for (int c = 0; c < kVectors; ++c) sees_[c] = sees_[c] && (in_any[alike ? 0 : c] & kTops) != 0;
  }

  // What a user's function hides, into the words.
  HWY_NOINLINE void load_function(const MaskFunction& function, std::int64_t key, std::int64_t rows) {
    std::uint8_t visible[kTileRows * kColumns];
    function.fill({.first = pair_of(task_, begin_, key),
                   .queries = static_cast<std::int32_t>(count_),
                   .keys = static_cast<std::int32_t>(rows),
                   .query_step = 1,
                   .key_step = kColumns,
                   .at = visible});
    for (std::int64_t r = 0; r < rows; ++r) {
      const int shift = static_cast<int>(8 * (r % kWordRows) + 7);
      for (std::int64_t i = 0; i < count_; ++i) {
        const Word hidden = static_cast<Word>(visible[r * kColumns + i] == 0) << shift;
        words_[r / kWordRows][i] &= static_cast<Index>(~hidden);
      }
    }
  }

  const AttentionTask& task_;
  const std::int64_t begin_, count_;
  const bool by_element_;                                      // intervals do not tell all
  const bool has_words_;                                       // of booleans or functions
  KeyRange some_ = kNone;                                      // seen by some query
  KeyRange all_{0, std::numeric_limits<std::int64_t>::max()};  // seen by every one
  KeyRange vectors_[kVectors];                                 // seen by some query of the vector
  HWY_ALIGN Index first_[kColumns], last_[kColumns];
  HWY_ALIGN Index words_[kWords][kColumns] = {};
  HWY_ALIGN Index documents_[kColumns] = {};  // numbers of the queries' own
  HWY_ALIGN Index residues_[kColumns] = {};   // of their positions, modulo the step
  // Of the tile looked at, as booleans and documents tell: vectors of which some query sees some key, and whether every
  // query sees every key.
  bool sees_[kVectors] = {};
  bool every_ = false;
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
