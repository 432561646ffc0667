// The gradients of what a tile of scores and logits is made of beside queries and keys: the hidden layers of additive
// scores, biases in arrays, tables and slopes. Included once per CPU target.

#if defined(QKV_ATTENTION_BACKWARD_PARAMETER_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_BACKWARD_PARAMETER_GRADIENTS_INL_H_
#undef QKV_ATTENTION_BACKWARD_PARAMETER_GRADIENTS_INL_H_
#else
#define QKV_ATTENTION_BACKWARD_PARAMETER_GRADIENTS_INL_H_
#endif

#include <algorithm>

#include "attention/tile/attention_task.h"
#include "attention/tile/logits-inl.h"
#include "attention/tile/query_sums-inl.h"
#include "attention/tile/softmax_state-inl.h"
#include "simd/rows-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// The gradients of additive scores v . tanh(a + b), with a the hidden layer of a query and b that of a key, from a tile
// of gradients of scores.

// What the gradients of a tile are made from, and the sums that they are added to.
template <class T>
struct AdditiveTile {
  std::int64_t hidden, queries;
  const T* of_queries;  // a [hidden][column]
  const T* of_keys;     // b [kTileRows][of_keys_step]
  std::int64_t of_keys_step;
  const T* v;          // [hidden]
  const T* gradients;  // of the scores, [kTileRows][column]; 0: the pair takes no part, whatever a, b and v hold
  T* grad_queries;     // of a, [hidden][column]
  T* grad_keys;        // of b, [kTileRows][key_step]
  std::int64_t key_step;
  T* grad_v;  // [hidden][column], still to be summed over columns
};

// Of element h of the hidden layers and kStepRows of the tile's rows from `first` on.
template <int kVectors, class T>
void add_additive_rows(const AdditiveTile<T>& tile, std::int64_t h, int first) {
  const Tag<T> d;
  constexpr std::int64_t kColumns = kVectors * kLanes<T>;
  Vec<T> sum[kVectors], sum_v[kVectors];
  QKV_UNROLL for (int c = 0; c < kVectors; ++c) sum[c] = sum_v[c] = hn::Zero(d);
  for (int r = first; r < first + kStepRows; ++r) {
    const Vec<T> of_key = hn::Set(d, tile.of_keys[r * tile.of_keys_step + h]);
    HWY_ALIGN T row[kColumns];
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      const std::int64_t at = c * kLanes<T>;
      const auto used = hn::Lt(hn::Iota(d, static_cast<T>(at)), hn::Set(d, static_cast<T>(tile.queries)));
      const Vec<T> gradient = hn::IfThenElseZero(used, hn::Load(d, tile.gradients + r * kColumns + at));
      const Vec<T> t = tanh<T>(hn::Add(hn::Load(d, tile.of_queries + h * kColumns + at), of_key));
      const auto none = hn::Eq(gradient, hn::Zero(d));
      const Vec<T> slope = hn::NegMulAdd(t, t, hn::Set(d, T(1)));
      const Vec<T> inner = hn::IfThenZeroElse(none, hn::Mul(gradient, slope));
      hn::Store(inner, d, row + at);
      sum[c] = hn::Add(sum[c], inner);
      sum_v[c] = hn::Add(sum_v[c], hn::IfThenZeroElse(none, hn::Mul(gradient, t)));
    }
    for_each_query_sum<kVectors>(row, [&](T of_queries) {
      if (of_queries != 0) tile.grad_keys[r * tile.key_step + h] += tile.v[h] * of_queries;
    });
  }
  QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
    T* grad_queries = tile.grad_queries + h * kColumns + c * kLanes<T>;
    T* grad_v = tile.grad_v + h * kColumns + c * kLanes<T>;
    const Vec<T> before = hn::Load(d, grad_queries), after = hn::MulAdd(sum[c], hn::Set(d, tile.v[h]), before);
    hn::Store(hn::IfThenElse(hn::Eq(sum[c], hn::Zero(d)), before, after), d, grad_queries);
    hn::Store(hn::Add(hn::Load(d, grad_v), sum_v[c]), d, grad_v);
  }
}

template <int kVectors, class T>
void add_additive_gradients(const AdditiveTile<T>& tile) {
  for (std::int64_t h = 0; h < tile.hidden; ++h) {
    for (int first = 0; first < kTileRows; first += kStepRows) add_additive_rows<kVectors>(tile, h, first);
  }
}

// A tile of gradients of logits [key][query] added to the gradient of a bias.

template <class T>
T* element_of(const Plane& plane, std::int64_t query, std::int64_t key) {
  return reinterpret_cast<T*>(const_cast<std::byte*>(plane.data)) + query * plane.query_step + key * plane.key_step;
}

// plane(query + i, key + j) += tile[j][i] for j < keys, i < queries, in order of queries. `spare`: as large as the
// tile. Where the plane broadcasts along keys, only sums [column] += tile[j], in order of keys.
template <int kVectors, class T>
void add_to_plane(const Plane& plane, std::int64_t query, std::int64_t queries, std::int64_t key, std::int64_t keys,
                  const T* tile, T* spare, T* sums) {
  constexpr std::int64_t kColumns = kVectors * kLanes<T>;
  const Tag<T> d;
  if (plane.key_step == 0) {
    for (std::int64_t c = 0; c < kColumns; c += kLanes<T>) {
      Vec<T> sum = hn::Load(d, sums + c);
      for (std::int64_t j = 0; j < keys; ++j) sum = hn::Add(sum, hn::Load(d, tile + j * kColumns + c));
      hn::Store(sum, d, sums + c);
    }
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

// Those sums, when all keys of a chunk are in them, in order of queries.
template <class T>
void add_key_sums(const Plane& plane, std::int64_t query, std::int64_t queries, const T* sums) {
  if (plane.key_step != 0) return;
  for (std::int64_t i = 0; i < queries; ++i) *element_of<T>(plane, query + i, 0) += sums[i];
}

// Sums of the logits' gradients by parameter: the numbers of relative tables, as they lie in the task, but Shaw's; then
// the slope of ALiBi. What many pairs of a query share, a slope and the ends of a line, is summed query by query first.
template <class T, int kVectors>
class ParameterGradients {
 public:
  static constexpr int kColumns = kVectors * kLanes<T>;

  // In elements of T.
  static std::int64_t scratch_size(const AttentionTask& task) { return (2 * task.common->table_count + 1) * kColumns; }

  // Of queries begin <= i < begin + count. `rows`: scratch_size() elements.
  void prepare(const AttentionTask& task, std::int64_t begin, std::int64_t count, T* rows) {
    task_ = &task;
    position_ = begin + task.offset;
    count_ = count;
    rows_ = rows;
    std::fill_n(rows_, scratch_size(task), T(0));
  }

  // `gradients`: a tile [kTileRows][query] of keys key, key + 1 ..., 0 where hidden. Adds to sums
  // [parameter_count(task)].
  HWY_NOINLINE void add(std::int64_t key, const T* gradients, T* sums) {
    T* ends = rows_;
    for (int t = 0; t < task_->common->table_count; ++t, ends += 2 * kColumns) {
      const TableBias& table = task_->tables[t];
      if (table.row_length > 0) {
        // relative_rows-inl.h
      } else if (table.coordinates == nullptr) {
        add_to_line(table, key, gradients, ends, sums + kTablePadding);
      } else {
        add_to_window(table, key, gradients, sums);
      }
      sums += table.numbers;
    }
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> index;
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        const auto first = static_cast<hwy::MakeSigned<T>>(position_ + c * kLanes<T> - (key + r));
        const Vec<T> distance = hn::ConvertTo(d, hn::Abs(hn::Iota(index, first)));
        T* slope = ends + c * kLanes<T>;
        hn::Store(hn::NegMulAdd(distance, used(gradients, r, c), hn::Load(d, slope)), d, slope);
      }
    }
  }

  // What was summed query by query, after all tiles.
  void finish(T* sums) const {
    const T* ends = rows_;
    const auto add_row = [&](T* to) {
      for_each_query_sum<kVectors>(ends, [&](T sum) { *to += sum; });
      ends += kColumns;
    };
    for (int t = 0; t < task_->common->table_count; ++t) {
      const TableBias& table = task_->tables[t];
      if (table.row_length > 0 || table.coordinates != nullptr) {
        ends += 2 * kColumns;
      } else {
        add_row(sums + kTablePadding - 1);
        add_row(sums + kTablePadding + 2 * table.reach + 1);
      }
      sums += table.numbers;
    }
    add_row(sums);
  }

 private:
  HWY_INLINE Vec<T> used(const T* gradients, int r, int c) const {
    const auto lanes =
        hn::FirstN(Tag<T>(), static_cast<std::size_t>(std::clamp<std::int64_t>(count_ - c * kLanes<T>, 0, kLanes<T>)));
    return hn::IfThenElseZero(lanes, hn::Load(Tag<T>(), gradients + r * kColumns + c * kLanes<T>));
  }

  // Pairs beyond the reach have the numbers at its ends: before: those of queries in front of their keys.
  HWY_INLINE void add_to_line(const TableBias& table, std::int64_t key, const T* gradients, T* ends, T* line) const {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> index;
    using Index = hwy::MakeSigned<T>;
    const auto add = [&](Vec<T> x, T* to) { hn::StoreU(hn::Add(hn::LoadU(d, to), x), d, to); };
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        const std::int64_t first = table.reach + position_ + c * kLanes<T> - (key + r), last = first + kLanes<T> - 1;
        const Vec<T> x = used(gradients, r, c);
        T* before = ends + c * kLanes<T>;
        T* behind = before + kColumns;
        if (last < 0) {
          add(x, before);
        } else if (first > 2 * table.reach) {
          add(x, behind);
        } else if (first >= 0 && last <= 2 * table.reach) {
          add(x, line + first);
        } else {
          const auto place = hn::Iota(index, static_cast<Index>(first));
          const auto low = hn::RebindMask(d, hn::Lt(place, hn::Zero(index)));
          const auto high = hn::RebindMask(d, hn::Gt(place, hn::Set(index, static_cast<Index>(2 * table.reach))));
          add(hn::IfThenElseZero(low, x), before);
          add(hn::IfThenElseZero(high, x), behind);
          add(hn::IfThenZeroElse(hn::Or(low, high), x), line + first);
        }
      }
    }
  }

  void add_to_window(const TableBias& table, std::int64_t key, const T* gradients, T* sums) const {
    const auto* coordinates = reinterpret_cast<const hwy::MakeSigned<T>*>(table.coordinates);
    for (int r = 0; r < kTileRows; ++r) {
      T* to = sums + table.center - coordinates[key + r];
      for (std::int64_t i = 0; i < count_; ++i) to[coordinates[position_ + i]] += gradients[r * kColumns + i];
    }
  }

  const AttentionTask* task_ = nullptr;
  std::int64_t position_ = 0, count_ = 0;
  T* rows_ = nullptr;  // of each table two, of the queries' pairs beyond either end; then of slopes: [kColumns] each
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
