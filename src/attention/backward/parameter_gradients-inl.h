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

template <int kVectors, class T>
void add_additive_gradients(const AdditiveTile<T>& tile) {
  const Tag<T> d;
  constexpr std::int64_t kColumns = kVectors * kLanes<T>;
  for (std::int64_t h = 0; h < tile.hidden; ++h) {
    Vec<T> sum[kVectors], sum_v[kVectors];
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) sum[c] = sum_v[c] = hn::Zero(d);
    for (int r = 0; r < kTileRows; ++r) {
      const Vec<T> of_key = hn::Set(d, tile.of_keys[r * tile.of_keys_step + h]);
      Vec<T> sum_key = hn::Zero(d);
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
        const std::int64_t first = c * kLanes<T>;
        const auto used = hn::Lt(hn::Iota(d, static_cast<T>(first)), hn::Set(d, static_cast<T>(tile.queries)));
        const Vec<T> gradient = hn::IfThenElseZero(used, hn::Load(d, tile.gradients + r * kColumns + first));
        const Vec<T> t = tanh<T>(hn::Add(hn::Load(d, tile.of_queries + h * kColumns + first), of_key));
        const auto none = hn::Eq(gradient, hn::Zero(d));
        const Vec<T> slope = hn::NegMulAdd(t, t, hn::Set(d, T(1)));
        const Vec<T> inner = hn::IfThenZeroElse(none, hn::Mul(gradient, slope));
        sum[c] = hn::Add(sum[c], inner);
        sum_key = hn::Add(sum_key, inner);
        sum_v[c] = hn::Add(sum_v[c], hn::IfThenZeroElse(none, hn::Mul(gradient, t)));
      }
      const T of_all = hn::GetLane(hn::SumOfLanes(d, sum_key));
      if (of_all != 0) tile.grad_keys[r * tile.key_step + h] += tile.v[h] * of_all;
    }
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      T* grad_queries = tile.grad_queries + h * kColumns + c * kLanes<T>;
      T* grad_v = tile.grad_v + h * kColumns + c * kLanes<T>;
      const Vec<T> before = hn::Load(d, grad_queries), after = hn::MulAdd(sum[c], hn::Set(d, tile.v[h]), before);
      hn::Store(hn::IfThenElse(hn::Eq(sum[c], hn::Zero(d)), before, after), d, grad_queries);
      hn::Store(hn::Add(hn::Load(d, grad_v), sum_v[c]), d, grad_v);
    }
  }
}

// A tile of gradients of logits [key][query] added to the gradient of a bias.

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

// Sums of the logits' gradients by parameter: the numbers of relative tables, as they lie in the task, but Shaw's; then
// the slope of ALiBi.

// `gradients`: a tile [kTileRows][query] of keys key, key + 1 ..., 0 where hidden, whose first query is `begin`. Lanes
// from `count` on have no query. Adds to sums [parameter_count(task)].
template <int kVectors, class T>
HWY_NOINLINE void add_parameter_gradients(const AttentionTask& task, std::int64_t begin, std::int64_t count,
                                          std::int64_t key, const T* gradients, T* sums) {
  constexpr int kColumns = kVectors * kLanes<T>;
  const Tag<T> d;
  const std::int64_t position = begin + task.offset;
  const auto used = [&](int r, int c) {
    const auto lanes =
        hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(count - c * kLanes<T>, 0, kLanes<T>)));
    return hn::IfThenElseZero(lanes, hn::Load(d, gradients + r * kColumns + c * kLanes<T>));
  };
  for (int t = 0; t < task.common->table_count; ++t) {
    const TableBias& table = task.tables[t];
    if (table.row_length > 0) {
      // relative_rows-inl.h
    } else if (table.coordinates == nullptr) {
      for (int r = 0; r < kTileRows; ++r) {
        for (int c = 0; c < kVectors; ++c) {
          T* to = sums + kTablePadding + table.line_index(position + c * kLanes<T> - (key + r), kLanes<T>);
          hn::StoreU(hn::Add(hn::LoadU(d, to), used(r, c)), d, to);
        }
      }
    } else {
      const auto* coordinates = reinterpret_cast<const hwy::MakeSigned<T>*>(table.coordinates);
      for (int r = 0; r < kTileRows; ++r) {
        T* to = sums + table.center - coordinates[key + r];
        for (std::int64_t i = 0; i < count; ++i) to[coordinates[position + i]] += gradients[r * kColumns + i];
      }
    }
    sums += table.numbers;
  }
  const hn::RebindToSigned<Tag<T>> index;
  Vec<T> slope = hn::Zero(d);
  for (int r = 0; r < kTileRows; ++r) {
    for (int c = 0; c < kVectors; ++c) {
      const auto first = static_cast<hwy::MakeSigned<T>>(position + c * kLanes<T> - (key + r));
      const Vec<T> distance = hn::ConvertTo(d, hn::Abs(hn::Iota(index, first)));
      slope = hn::NegMulAdd(distance, used(r, c), slope);
    }
  }
  *sums += hn::GetLane(hn::SumOfLanes(d, slope));
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
