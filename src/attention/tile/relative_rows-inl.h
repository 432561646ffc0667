// Shaw's table in a block of queries: scale * (q . row of the pair's distance), and its gradients. Each row is
// multiplied once; products are looked up by the distance of query and key. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_RELATIVE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_RELATIVE_ROWS_INL_H_
#undef QKV_ATTENTION_TILE_RELATIVE_ROWS_INL_H_
#else
#define QKV_ATTENTION_TILE_RELATIVE_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "attention/tile/accumulate-inl.h"
#include "attention/tile/logit_tile-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// A number for each row that pairs of the block can have, and each query: [rows][column].
template <class T, int kVectors>
class RelativeRows {
 public:
  static std::int64_t scratch_size(const AttentionTask& task) {
    const TableBias* table = rows_table(task);
    return table == nullptr ? 0 : (2 * table->reach + 1) * kColumns;
  }

  bool is_on() const { return table_ != nullptr; }

  // Queries from `begin` on. `numbers`: scratch_size() of them.
  void prepare(const AttentionTask& task, std::int64_t begin, T* numbers) {
    table_ = rows_table(task);
    if (!is_on()) return;
    position_ = begin + task.offset;
    scale_ = static_cast<T>(task.common->scale);
    first_ = table_->row_index(position_ - (task.k_len - 1 + kTileRows));
    last_ = table_->row_index(position_ + kColumns - 1) + 1;
    numbers_ = numbers;
  }

  // numbers = queries x rows. `queries`: [size][column].
  void multiply(const T* queries, std::int64_t size) {
    std::int64_t row = first_;
    for (; row + kTileRows <= last_; row += kTileRows) multiply_some<kTileRows>(row, queries, size);
    for (; row < last_; ++row) multiply_some<1>(row, queries, size);
  }

  // Adds scale times the numbers to the logits [kTileRows][column] of the keys from `key` on.
  HWY_NOINLINE void add_to(T* logits, std::int64_t key) const {
    const Tag<T> d;
    const auto add = [&](T* to, Vec<T> number) {
      hn::Store(hn::MulAdd(number, hn::Set(d, scale_), hn::Load(d, to)), d, to);
    };
    for_each_vector(
        key, [&](std::int64_t at, const T* row) { add(logits + at, hn::Load(d, row)); },
        [&](std::int64_t at, auto indices) { add(logits + at, hn::GatherIndex(d, numbers_, indices)); });
  }

  void clear() { std::memset(numbers_, 0, sizeof(T) * (last_ - first_) * kColumns); }

  // Adds such a tile of gradients to the numbers.
  HWY_NOINLINE void add_gradients(const T* gradients, std::int64_t key) {
    const Tag<T> d;
    for_each_vector(
        key,
        [&](std::int64_t at, T* row) { hn::Store(hn::Add(hn::Load(d, row), hn::Load(d, gradients + at)), d, row); },
        [&](std::int64_t at, auto indices) {
          const Vec<T> sum = hn::Add(hn::GatherIndex(d, numbers_, indices), hn::Load(d, gradients + at));
          hn::ScatterIndex(sum, d, numbers_, indices);
        });
  }

  // grad_queries [size][column] += rows x numbers, without the scale. A number of 0 adds 0, whatever its row holds.
  void add_to_queries(std::int64_t size, T* grad_queries) {
    const KeyRows<T> rows{row_at(first_), table_->row_length, last_ - first_};
    const bool finite = rows.are_finite(size);
    if (!finite) mark_zeros();
    accumulate<kVectors>(rows, size, numbers_, finite ? nullptr : numbers_, grad_queries);
  }

  // Adds numbers x queries [count][columns], without the scale, to the sums of the table's rows.
  HWY_NOINLINE void add_to_rows(const T* queries, std::int64_t columns, std::int64_t count, T* sums) const {
    std::int64_t row = first_;
    for (; row + kTileRows <= last_; row += kTileRows) add_some<kTileRows>(row, queries, columns, count, sums);
    for (; row < last_; ++row) add_some<1>(row, queries, columns, count, sums);
  }

  // The same for queries with NaN or infinity: a number of 0 adds 0.
  HWY_NOINLINE void add_some_to_rows(const T* queries, std::int64_t columns, std::int64_t count, T* sums) const {
    const Tag<T> d;
    for (std::int64_t row = first_; row < last_; ++row) {
      T* to = sums + row * table_->row_length;
      for (std::int64_t i = 0; i < count; ++i) {
        const T number = numbers_[(row - first_) * kColumns + i];
        if (number == 0) continue;
        for (std::int64_t c = 0; c < columns; c += kLanes<T>) {
          const Vec<T> query = hn::LoadU(d, queries + i * columns + c);
          hn::StoreU(hn::MulAdd(hn::Set(d, number), query, hn::LoadU(d, to + c)), d, to + c);
        }
      }
    }
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;

  // Numbers of 0 become -0, what accumulate() leaves out.
  void mark_zeros() {
    const Tag<T> d;
    for (T* at = numbers_; at < numbers_ + (last_ - first_) * kColumns; at += kLanes<T>) {
      const Vec<T> number = hn::Load(d, at);
      hn::Store(hn::IfThenElse(hn::Eq(number, hn::Zero(d)), hn::Set(d, T(-0.0)), number), d, at);
    }
  }

  const T* row_at(std::int64_t row) const {
    return reinterpret_cast<const T*>(table_->values) + row * table_->row_length;
  }

  // For each vector of a tile: in_row(offset in the tile, numbers) where its pairs have one row, that of an end; else
  // apart(offset, indices in numbers_).
  template <class InRow, class Apart>
  HWY_INLINE void for_each_vector(std::int64_t key, const InRow& in_row, const Apart& apart) const {
    const hn::RebindToSigned<Tag<T>> d;
    using Index = hwy::MakeSigned<T>;
    const std::int64_t most = 2 * table_->reach;
    const auto zero = hn::Zero(d), end = hn::Set(d, static_cast<Index>(most)), width = hn::Set(d, Index{kColumns});
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        const std::int64_t column = c * kLanes<T>, first = table_->reach + position_ + column - (key + r);
        if (first >= most || first + kLanes<T> <= 1) {
          const std::int64_t row = first >= most ? most : 0;
          in_row(r * kColumns + column, numbers_ + (row - first_) * kColumns + column);
        } else {
          const auto rows = hn::Min(hn::Max(hn::Iota(d, static_cast<Index>(first)), zero), end);
          const auto lanes = hn::Iota(d, static_cast<Index>(column - first_ * kColumns));
          apart(r * kColumns + column, hn::Add(hn::Mul(rows, width), lanes));
        }
      }
    }
  }

  template <int kRows>
  void multiply_some(std::int64_t row, const T* queries, std::int64_t size) {
    const Tag<T> d;
    Vec<T> sum[kRows][kVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::Zero(d);
    }
    multiply_tile<kRows, kVectors, T>(row_at(row), table_->row_length, 1, queries, kColumns, size, sum);
    T* to = numbers_ + (row - first_) * kColumns;
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) hn::Store(sum[r][c], d, to + r * kColumns + c * kLanes<T>);
    }
  }

  template <int kRows>
  void add_some(std::int64_t row, const T* queries, std::int64_t columns, std::int64_t count, T* sums) const {
    const Tag<T> d;
    for (std::int64_t column = 0; column < columns; column += kLanes<T>) {
      T* to = sums + row * table_->row_length + column;
      Vec<T> sum[kRows][1];
      QKV_UNROLL for (int r = 0; r < kRows; ++r) sum[r][0] = hn::LoadU(d, to + r * table_->row_length);
      multiply_tile<kRows, 1, T>(numbers_ + (row - first_) * kColumns, kColumns, 1, queries + column, columns, count,
                                 sum);
      QKV_UNROLL for (int r = 0; r < kRows; ++r) hn::StoreU(sum[r][0], d, to + r * table_->row_length);
    }
  }

  const TableBias* table_ = nullptr;
  std::int64_t position_ = 0;  // of the first query
  T scale_ = 0;
  std::int64_t first_ = 0, last_ = 0;  // rows that pairs of the block can have: first_ <= row < last_
  T* numbers_ = nullptr;               // [last_ - first_][column]
};

// The same for a single query: neighbouring keys mostly have neighbouring rows, and all beyond the reach have one.
template <class T>
void add_relative_row(const TableBias& table, const LogitRow<T>& row) {
  const T* rows = reinterpret_cast<const T*>(table.values);
  std::int64_t last = -1;
  T number = 0;
  for (std::int64_t j = row.first; j < row.last; ++j) {
    const std::int64_t index = table.row_index(row.task.offset - (row.chunk + j));
    if (index != last) {
      number = static_cast<T>(row.task.common->scale) *
               dot(row.query, rows + index * table.row_length, row.task.common->query_dim);
    }
    last = index;
    row.at[j] += number;
  }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
