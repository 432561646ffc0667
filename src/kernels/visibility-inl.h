// Which keys the queries of a block see: an interval of keys per query, from causal, window, lengths and documents, and
// inside it boolean planes read as bytes, numbers of scattered documents and a user's functions. Included once per CPU
// target.

#if defined(QKV_KERNELS_VISIBILITY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_VISIBILITY_INL_H_
#undef QKV_KERNELS_VISIBILITY_INL_H_
#else
#define QKV_KERNELS_VISIBILITY_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/attention_task.h"
#include "kernels/softmax_state-inl.h"

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
        has_words_(task.boolean_count != 0 || task.mask_function_count != 0),
        some_(keys_of_queries(task, begin, begin + count)) {
    for (KeyRange& vector : vectors_) vector = {std::numeric_limits<std::int64_t>::max(), 0};
    for (int i = 0; i < kColumns; ++i) {
      first_[i] = 0;  // lanes without a query see everything and decide nothing
      last_[i] = std::numeric_limits<Index>::max();
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const KeyRange keys = keys_of_query(task, begin + i);
      first_[i] = static_cast<Index>(keys.first);
      last_[i] = static_cast<Index>(keys.last);
      KeyRange& vector = vectors_[i / kLanes<T>];
      if (keys.first < keys.last) vector = {std::min(vector.first, keys.first), std::max(vector.last, keys.last)};
      all_.first = std::max(all_.first, keys.first);
      all_.last = std::min(all_.last, keys.last);
      if (task.query_documents != nullptr) documents_[i] = task.query_documents[begin + i];
    }
  }

  // No query sees a key outside first_key() <= j < last_key().
  std::int64_t first_key() const { return some_.first; }
  std::int64_t last_key() const { return some_.last; }

  // Whether every query sees keys key ... key + rows - 1.
  bool sees_all(std::int64_t key, std::int64_t rows) const {
    return !by_element_ && key >= all_.first && key + rows <= all_.last;
  }

  // Whether keys first <= j < last hold a document of one of the queries; else all of them are hidden.
  bool meets(std::int64_t first, std::int64_t last) const {
    if (task_.key_documents == nullptr) return true;
    for (std::int64_t j = first; j < last; ++j) {
      const std::int32_t document = task_.key_documents[j];
      if (j > first && document == task_.key_documents[j - 1]) continue;
      for (std::int64_t i = 0; i < count_; ++i) {
        if (documents_[i] == document) return true;
      }
    }
    return false;
  }

  // Vectors of queries, begin <= c < end.
  struct VectorRange {
    int begin, end;
    bool operator==(const VectorRange&) const = default;
  };

  // The others see none of keys key ... key + rows - 1. Holds at least one.
  VectorRange vectors_seeing(std::int64_t key, std::int64_t rows) const {
    const auto sees = [&](int c) { return key < vectors_[c].last && key + rows > vectors_[c].first; };
    VectorRange range{0, kVectors};
    while (range.begin + 1 < range.end && !sees(range.begin)) ++range.begin;
    while (range.begin + 1 < range.end && !sees(range.end - 1)) --range.end;
    return range;
  }

  // To call before hide() and hidden() for the tile that begins at `key`: of the bytes of each query, the top bit says
  // whether the key is visible in every plane.
  void load_booleans(std::int64_t key, int rows) {
    if (!has_words_) return;
    const std::int64_t present = std::min<std::int64_t>(rows, task_.k_len - key);
    bool alike = true;  // padding: one row of bytes for all queries
    for (int p = 0; p < task_.boolean_count; ++p) alike = alike && task_.booleans[p].query_step == 0;
    const std::int64_t distinct = alike ? std::min<std::int64_t>(count_, 1) : count_;
    in_every_ = ~std::uint64_t{0};
    in_any_ = 0;
    for (std::int64_t i = 0; i < distinct; ++i) {
      std::uint64_t visible = ~std::uint64_t{0};
      for (int p = 0; p < task_.boolean_count; ++p) {
        const Plane& plane = task_.booleans[p];
        const std::byte* bytes = plane.data + (begin_ + i) * plane.query_step + key * plane.key_step;
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
      in_every_ &= visible;
      in_any_ |= visible;
    }
    for (int w = 0; w < kWords; ++w) {
      for (std::int64_t i = distinct; i < count_; ++i) words_[w][i] = words_[w][0];
    }
    for (std::size_t f = 0; f < task_.mask_function_count; ++f) load_function(task_.mask_functions[f], key, present);
  }

  enum class Sight { none, some, all };

  // What the queries see of the tile of keys that load_booleans() was called for. Not `none` without boolean planes.
  Sight sight(std::int64_t key) const {
    constexpr std::uint64_t kTops = std::uint64_t{0x8080808080808080} >> (64 - 8 * kTileRows);
    if (task_.boolean_count == 0) return Sight::some;
    if ((in_any_ & kTops) == 0) return Sight::none;
    const bool intervals = task_.key_documents == nullptr && task_.mask_function_count == 0;
    const bool inside = intervals && key >= all_.first && key + kTileRows <= all_.last;
    return inside && (in_every_ & kTops) == kTops ? Sight::all : Sight::some;
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
  using Index = hwy::MakeSigned<T>;
  using Word = hwy::MakeUnsigned<T>;
  static constexpr int kWordRows = sizeof(T);  // keys whose bytes fit a lane
  static constexpr int kWords = (kTileRows + kWordRows - 1) / kWordRows;

  // What a user's function hides, into the words of load_booleans.
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
  const KeyRange some_;                                        // seen by some query
  KeyRange all_{0, std::numeric_limits<std::int64_t>::max()};  // seen by every one
  KeyRange vectors_[kVectors];                                 // seen by some query of the vector
  HWY_ALIGN Index first_[kColumns], last_[kColumns];
  HWY_ALIGN Index words_[kWords][kColumns] = {};
  HWY_ALIGN Index documents_[kColumns] = {};
  std::uint64_t in_every_ = 0, in_any_ = 0;  // the bytes of all queries, combined by "and" and by "or"
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
