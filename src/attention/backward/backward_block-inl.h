// The backward pass of one block of queries against a chunk of keys. Logits, weights and their gradients are tiles
// [key][query]; sums over keys (for queries) have vectors over queries, sums over queries (for keys and values) have
// vectors over sizes, so that nothing is packed but the block's own rows. Included once per CPU target.

#if defined(QKV_ATTENTION_BACKWARD_BACKWARD_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_BACKWARD_BACKWARD_BLOCK_INL_H_
#undef QKV_ATTENTION_BACKWARD_BACKWARD_BLOCK_INL_H_
#else
#define QKV_ATTENTION_BACKWARD_BACKWARD_BLOCK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>

#include "attention/backward/backward_kernel.h"
#include "attention/backward/double_backward-inl.h"
#include "attention/backward/parameter_gradients-inl.h"
#include "attention/tile/accumulate-inl.h"
#include "attention/tile/dropout-inl.h"
#include "attention/tile/logits-inl.h"
#include "attention/tile/query_sums-inl.h"
#include "attention/tile/recompute-inl.h"
#include "attention/tile/sinks-inl.h"
#include "attention/tile/tile_walk-inl.h"
#include "core/mathematics.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Size of what scores are made of, for which the kernel computes gradients: queries and keys, or their hidden layers.
inline std::int64_t score_dim(const AttentionTask& task) {
  return is_additive(task) ? task.common->hidden : task.common->query_dim;
}

// Sizes in elements of T.
template <class T, int kVectors>
struct BackwardScratch {
  static constexpr std::int64_t kColumns = kVectors * kLanes<T>;

  explicit BackwardScratch(const BackwardTask& backward)
      : BackwardScratch(backward.forward, DoubleBackward<T, kVectors>::scratch_size(backward)) {}

  BackwardScratch(const AttentionTask& task, std::int64_t of_double)
      : logits(task),
        tile(kBackwardKeys * kColumns),
        query_rows(kColumns * whole_vectors<T>(score_dim(task))),
        value_rows(kColumns * whole_vectors<T>(task.common->value_dim)),
        grad_out(task.common->value_dim * kColumns),
        grad_query(score_dim(task) * kColumns),
        grad_v(is_additive(task) ? task.common->hidden * kColumns : 0),
        tile_values(LogitScratch<T, kVectors>::round_up(kTileRows * task.common->value_dim)),
        wide_queries(kColumns * whole_vectors<T>(task.common->query_dim)),
        relative(RelativeRows<T, kVectors>::scratch_size(task)),
        parameters(ParameterGradients<T, kVectors>::scratch_size(task)),
        double_backward(of_double) {}

  std::int64_t total() const {
    return logits.total() + 3 * tile + query_rows + value_rows + grad_out + grad_query + grad_v + tile_values +
           wide_queries + relative + parameters + double_backward;
  }

  LogitScratch<T, kVectors> logits;
  std::int64_t tile, query_rows, value_rows, grad_out, grad_query, grad_v, tile_values, wide_queries, relative,
      parameters, double_backward;
};

static_assert(kMostTileKeys % kTileRows == 0);

// sums[row][column] += sum over queries of tile[row][query] * rows[query][column], in order of queries; `columns` is a
// multiple of the vector.
template <int kRows, int kGroup, class T>
HWY_INLINE void sum_over_queries(const T* tile, std::int64_t tile_step, const T* rows, std::int64_t columns,
                                 std::int64_t queries, T* sums) {
  const Tag<T> d;
  Vec<T> sum[kRows][kGroup];
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kGroup; ++c) sum[r][c] = hn::Load(d, sums + r * columns + c * kLanes<T>);
  }
  multiply_tile<kRows, kGroup, T>(tile, tile_step, 1, rows, columns, queries, sum);
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kGroup; ++c) hn::Store(sum[r][c], d, sums + r * columns + c * kLanes<T>);
  }
}

template <class T, int kVectors>
class BackwardBlock {
 public:
  BackwardBlock(const BackwardTask& backward, std::int64_t begin, std::int64_t end, ScratchRoom scratch)
      : backward_(backward),
        task_(backward.forward),
        begin_(begin),
        count_(end - begin),
        score_dim_(score_dim(task_)),
        query_columns_(whole_vectors<T>(score_dim_)),
        value_columns_(whole_vectors<T>(task_.common->value_dim)),
        visibility_(task_, begin, count_),
        dropout_(task_, begin),
        double_(backward) {
    const BackwardScratch<T, kVectors> sizes(backward);
    weights_ = scratch.take<T>(sizes.tile);
    gradients_ = scratch.take<T>(sizes.tile);
    third_tile_ = scratch.take<T>(sizes.tile);
    query_rows_ = scratch.take<T>(sizes.query_rows);
    grad_out_rows_ = scratch.take<T>(sizes.value_rows);
    grad_out_ = scratch.take<T>(sizes.grad_out);
    grad_query_ = scratch.take<T>(sizes.grad_query);
    grad_v_ = scratch.take<T>(sizes.grad_v);
    tile_values_ = scratch.take<T>(sizes.tile_values);
    queries_ = rows_of_queries(scratch.take<T>(sizes.wide_queries));
    relative_.prepare(task_, begin, scratch.take<T>(sizes.relative));
    parameter_gradients_.prepare(task_, begin, count_, scratch.take<T>(sizes.parameters));
    logits_.prepare(task_, begin, count_, queries_, scratch);
    if (double_.is_on()) double_.prepare(begin, count_, scratch);
  }

  // Keys of the chunk that begins at `chunk`. Returns the queries' gradient, rows of score_dim, or nullptr.
  const T* run(std::int64_t chunk, const ChunkSums& sums) {
    if (std::max(visibility_.first_key(), chunk) >= std::min(visibility_.last_key(), chunk + kChunkKeys))
      return nullptr;
    parameters_ = reinterpret_cast<T*>(sums.parameters);
    narrows_ = parameters_ == nullptr && backward_.bias_count == 0 && !dropout_.is_on() && !double_.is_on();
    read_block();
    if (sums.sink != nullptr && visibility_.first_key() / kChunkKeys * kChunkKeys == chunk) {
      task_.is_plain ? write_sink<Unit::base2>(sums.sink) : write_sink<Unit::natural>(sums.sink);
    }
    std::memset(grad_query_, 0, sizeof(T) * score_dim_ * kColumns);
    if (is_additive(task_)) std::memset(grad_v_, 0, sizeof(T) * task_.common->hidden * kColumns);
    if (relative_.is_on()) relative_.clear();
    const auto attend_block = [&](std::int64_t block, std::int64_t first, std::int64_t last, bool visible) {
      if (!visible) return;
      task_.is_plain ? attend_keys<Unit::base2>(chunk, block, first, last, sums)
                     : attend_keys<Unit::natural>(chunk, block, first, last, sums);
    };
    walk_blocks<kBackwardKeys>(visibility_, chunk, chunk + kChunkKeys, attend_block);
    for (int n = 0; n < backward_.bias_count; ++n) {
      add_key_sums(backward_.bias_gradients[n], begin_, count_, key_sums_[n]);
    }
    if (is_additive(task_)) add_score_v(reinterpret_cast<T*>(sums.score_v));
    if (relative_.is_on()) finish_relative_rows();
    if (parameters_ != nullptr) parameter_gradients_.finish(parameters_);
    return scaled_query_gradient();
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  using Coverage = typename Visibility<T, kVectors>::Coverage;
  using VectorRange = typename Visibility<T, kVectors>::VectorRange;

  // Row 0 is the block's first query: where it lies, if it is of type T, else a copy in `wide`.
  Rows rows_of_queries(T* wide) const {
    if (task_.query.type == dtype_of<T>) return from_row(task_.query, begin_);
    const std::int64_t step = whole_vectors<T>(task_.common->query_dim);
    read_rows(task_.query, begin_, begin_ + count_, task_.common->query_dim, wide, step);
    return {reinterpret_cast<const std::byte*>(wide), dtype_of<T>, step};
  }

  // The block's rows of queries and of grad_out, padded with zeros; grad_out transposed; log-sum-exp and, per query,
  // rowsum(grad_out * out), plain and times dropout's rate.
  void read_block() {
    std::memset(query_rows_, 0, sizeof(T) * kColumns * query_columns_);
    std::memset(grad_out_rows_, 0, sizeof(T) * kColumns * value_columns_);
    std::memset(grad_out_, 0, sizeof(T) * kColumns * task_.common->value_dim);
    const T rate = static_cast<T>(task_.common->dropout.threshold) / DropoutRule::kAll;
    for (std::int64_t i = 0; i < kColumns; ++i) log_sum_exp_[i] = products_[i] = delta_[i] = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      const T row_sum = reinterpret_cast<const T*>(backward_.log_sum_exp)[(begin_ + i) * backward_.log_sum_exp_step];
      log_sum_exp_[i] = log_sum_exp_of(task_, row_sum);
      if (row_sum == -kInfinity<T>) continue;
      T* grad_out = grad_out_rows_ + i * value_columns_;
      if (!is_additive(task_)) {
        T* query = query_rows_ + i * query_columns_;
        read_rows(queries_, i, i + 1, task_.common->query_dim, query, query_columns_);
        rows_are_finite_ = rows_are_finite_ && is_finite_row(query, task_.common->query_dim);
      }
      read_rows(backward_.grad_out, begin_ + i, begin_ + i + 1, task_.common->value_dim, grad_out, value_columns_);
      T* out = tile_values_;
      read_rows(backward_.out, begin_ + i, begin_ + i + 1, task_.common->value_dim, out, value_columns_);
      products_[i] = dot(grad_out, out, task_.common->value_dim);
      delta_[i] = products_[i] * rate;
      rows_are_finite_ = rows_are_finite_ && std::isfinite(delta_[i]);  // whatever grad_out holds reaches it
      if (double_.is_on()) rows_are_finite_ = double_.read_row(i, grad_out) && rows_are_finite_;
    }
    transpose(grad_out_rows_, value_columns_, count_, task_.common->value_dim, grad_out_, kColumns);
  }

  // out depends on a sink through its weight alone: d out / d sink = -weight out. An out of 0, as that of a query
  // without keys, adds 0 whatever grad_out holds.
  template <Unit kUnit>
  void write_sink(double* sums) const {
    if (!has_sink(task_)) return;
    const Tag<T> d;
    const Vec<T> sink = hn::Set(d, sink_of<kUnit, T>(task_));
    HWY_ALIGN T shares[kColumns];
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      const std::int64_t at = c * kLanes<T>;
      const Vec<T> weight = power<kUnit, T>(hn::Sub(sink, hn::Load(d, log_sum_exp_ + at)));
      hn::Store(hn::Mul(weight, hn::Load(d, products_ + at)), d, shares + at);
    }
    for (std::int64_t i = 0; i < count_; ++i) {
      const bool counts = HWY_LIKELY(std::isfinite(shares[i])) || has_output(i);
      if (counts) sums[i / kSumQueries<T>] -= static_cast<double>(shares[i]);
    }
  }

  HWY_NOINLINE bool has_output(std::int64_t i) const {
    T* out = tile_values_;
    read_rows(backward_.out, begin_ + i, begin_ + i + 1, task_.common->value_dim, out, value_columns_);
    for (std::int64_t e = 0; e < task_.common->value_dim; ++e) {
      if (out[e] != 0) return true;
    }
    return false;
  }

  // Keys first <= j < last, within the block that begins at `block`.
  template <Unit kUnit>
  void attend_keys(std::int64_t chunk, std::int64_t block, std::int64_t first, std::int64_t last,
                   const ChunkSums& sums) {
    const std::int64_t first_row = (first - block) / kTileRows * kTileRows;
    bool masked = false;
    VectorRange taken[kBackwardKeys / kTileRows];  // the vectors of queries that take part in a tile
    const std::int64_t end_row = first_row + divide_up(last - block - first_row, kTileRows) * kTileRows;
    walk_tiles(visibility_, first, last, [&](std::int64_t key, Coverage coverage) {
      const std::int64_t row = key - block;
      VectorRange& range = taken[row / kTileRows];
      range = {0, kVectors};
      if (coverage == Coverage::all) return differentiate<kUnit, false>(key, row);
      if (coverage == Coverage::none) {
        range = {0, 0};
        if (backward_.bias_count > 0) {
          std::memset(gradients_ + row * kColumns, 0, sizeof(T) * kTileRows * kColumns);
        }
        return;
      }
      if constexpr (kUnit == Unit::base2 && kVectors > 1) {
        if (narrows_) {
          range = visibility_.vectors_seeing(key);
          if (visibility_.see_all(key, range)) return differentiate_range<false>(key, row, range);
          masked = true;
          return differentiate_range<true>(key, row, range);
        }
      }
      masked = true;
      differentiate<kUnit, true>(key, row);
    });
    for (int n = 0; n < backward_.bias_count; ++n) {
      add_to_plane<kVectors>(backward_.bias_gradients[n], begin_, count_, block - chunk + first_row,
                             last - block - first_row, gradients_ + first_row * kColumns, third_tile_, key_sums_[n]);
    }
    for (std::int64_t r = first_row; r < end_row; r += kTileRows) {
      const VectorRange range = taken[r / kTileRows];
      if (range.begin == range.end) continue;
      if (parameters_ != nullptr) {
        parameter_gradients_.add(block + r, gradients_ + r * kColumns, parameters_);
      }
      if (relative_.is_on()) relative_.add_gradients(gradients_ + r * kColumns, block + r);
      if (task_.common->soft_cap != 0) logits_.multiply_cap_slope(task_, block + r, gradients_ + r * kColumns);
      const std::int64_t in_chunk = block - chunk + r;
      const bool guarded = masked && !rows_are_finite_;
      const Queries queries = queries_in(range);
      add_rows(weights_, r, queries, guarded, grad_out_rows_, value_columns_,
               reinterpret_cast<T*>(sums.value) + in_chunk * value_columns_);
      T* grad_keys = reinterpret_cast<T*>(sums.key) + in_chunk * query_columns_;
      if (is_additive(task_)) {
        differentiate_additive(block + r, gradients_ + r * kColumns, grad_keys);
      } else {
        add_to_keys(r, queries, guarded, grad_keys);
      }
    }
    if (is_additive(task_)) return;
    accumulate_rows(task_.key, block, first_row, end_row, last, masked, taken, gradients_);
    if (!double_.is_on() || double_.tangents().key.data == nullptr) return;
    accumulate_rows(double_.tangents().key, block, first_row, end_row, last, masked, taken, third_tile_);
  }

  // grad_query_ += rows of keys times the tile, from its row `begin` to row `end`, for the vectors that were taken.
  void accumulate_rows(const Rows& rows, std::int64_t block, std::int64_t begin, std::int64_t end, std::int64_t last,
                       bool masked, const VectorRange* taken, const T* tile) {
    for (std::int64_t r = begin; r < end;) {
      std::int64_t next = r + kTileRows;
      while (next < end && taken[next / kTileRows] == taken[r / kTileRows]) next += kTileRows;
      const VectorRange range = taken[r / kTileRows];
      if (range.begin < range.end) {
        const KeyRows<T> keys{reinterpret_cast<const T*>(rows.data) + (block + r) * rows.step, rows.step,
                              std::min(block + next, last) - (block + r)};
        const bool guarded = masked && !keys.are_finite(task_.common->key_dim);
        const std::int64_t column = range.begin * kLanes<T>, at = r * kColumns + column;
        with_count(range, [&]<int kCount>() {
          accumulate<kCount, kVectors>(keys, task_.common->key_dim, tile + at, guarded ? weights_ + at : nullptr,
                                       grad_query_ + column);
        });
      }
      r = next;
    }
  }

  // run.operator()<kCount>(), of the vectors in the range.
  template <class Run>
  static HWY_INLINE void with_count(VectorRange range, const Run& run) {
    if constexpr (kVectors > 1) {
      if (range.end - range.begin == 1) return run.template operator()<1>();
    }
    if constexpr (kVectors > 2) {
      if (range.end - range.begin == 2) return run.template operator()<2>();
    }
    run.template operator()<kVectors>();
  }

  // Weights of a tile of keys, and the gradients of its logits. A hidden key has weight -0 and gradient 0.
  template <Unit kUnit, bool kMasked>
  void differentiate(std::int64_t key, std::int64_t row) {
    T* weights = weights_ + row * kColumns;
    T* gradients = gradients_ + row * kColumns;
    differentiate_vectors<kUnit, kMasked, kVectors>(key, /*vector=*/0, weights, gradients);
    if (dropout_.is_on()) dropout_.drop(key, kTileRows, delta_, weights, gradients);
    if (double_.is_on()) differentiate_twice<kMasked>(key, weights, gradients, third_tile_ + row * kColumns);
    if constexpr (kMasked) set_hidden<kVectors>(visibility_, key, /*vector=*/0, T(0), gradients);
  }

  // The same for some vectors of queries, where nothing else is asked of a tile.
  template <bool kMasked>
  void differentiate_range(std::int64_t key, std::int64_t row, VectorRange range) {
    with_count(range, [&]<int kCount>() {
      T* gradients = gradients_ + row * kColumns;
      differentiate_vectors<Unit::base2, kMasked, kCount>(key, range.begin, weights_ + row * kColumns, gradients);
      if constexpr (kMasked) set_hidden<kCount>(visibility_, key, range.begin, T(0), gradients);
    });
  }

  // The tiles' vectors from `vector` on.
  template <Unit kUnit, bool kMasked, int kCount>
  HWY_NOINLINE void differentiate_vectors(std::int64_t key, int vector, T* weights, T* gradients) {
    const Tag<T> d;
    recompute_weights<kUnit, kMasked, kCount>(task_, key, vector, log_sum_exp_, visibility_, logits_, weights);
    std::int64_t step;
    const T* values = tile_rows<T>(task_.value, key, task_.k_len, task_.common->value_dim, tile_values_, step);
    const std::int64_t column = vector * kLanes<T>;
    Vec<T> tile[kTileRows][kCount];
    QKV_UNROLL for (int c = 0; c < kCount; ++c) {
      const Vec<T> below = hn::Neg(hn::Load(d, delta_ + column + c * kLanes<T>));
      QKV_UNROLL for (int r = 0; r < kTileRows; ++r) tile[r][c] = below;
    }
    multiply_tile<kTileRows, kCount, T>(values, step, 1, grad_out_ + column, kColumns, task_.common->value_dim, tile);
    QKV_UNROLL for (int c = 0; c < kCount; ++c) {
      QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
        const std::int64_t at = r * kColumns + column + c * kLanes<T>;
        hn::Store(hn::Mul(hn::Load(d, weights + at), tile[r][c]), d, gradients + at);
      }
    }
  }

  template <bool kMasked>
  HWY_NOINLINE void differentiate_twice(std::int64_t key, T* weights, T* gradients, T* slopes) {
    double_.differentiate(key, grad_out_, weights, gradients, slopes);
    if constexpr (!kMasked) return;
    set_hidden<kVectors>(visibility_, key, /*vector=*/0, T(-0.0), weights);
    set_hidden<kVectors>(visibility_, key, /*vector=*/0, T(0), slopes);
  }

  // From a tile's gradients to those of hidden layers and of v.
  void differentiate_additive(std::int64_t key, const T* gradients, T* grad_keys) {
    std::int64_t step;
    const T* of_keys = logits_.hidden_of_keys(task_, key, step);
    add_additive_gradients<kVectors, T>({.hidden = task_.common->hidden,
                                         .queries = count_,
                                         .of_queries = logits_.projected_queries(),
                                         .of_keys = of_keys,
                                         .of_keys_step = step,
                                         .v = reinterpret_cast<const T*>(task_.common->score_v),
                                         .gradients = gradients,
                                         .grad_queries = grad_query_,
                                         .grad_keys = grad_keys,
                                         .key_step = query_columns_,
                                         .grad_v = grad_v_});
  }

  void finish_relative_rows() {
    relative_.add_to_queries(task_.common->query_dim, grad_query_);
    if (parameters_ == nullptr) return;
    T* sums = parameters_;
    for (const TableBias* table = task_.tables; table->row_length == 0; ++table) sums += table->numbers;
    rows_are_finite_ ? relative_.add_to_rows(query_rows_, query_columns_, count_, sums)
                     : relative_.add_some_to_rows(query_rows_, query_columns_, count_, sums);
  }

  void add_score_v(T* sums) const {
    for (std::int64_t h = 0; h < task_.common->hidden; ++h) {
      for_each_query_sum<kVectors>(grad_v_ + h * kColumns, [&](T sum) { sums[h] += sum; });
    }
  }

  struct Queries {
    std::int64_t first, count;
  };
  Queries queries_in(VectorRange range) const {
    const std::int64_t first = range.begin * kLanes<T>;
    return {first, std::min<std::int64_t>(range.end * kLanes<T>, count_) - first};
  }

  // The gradient of the keys of the tile in row r; that of the double backward has two shares of each query, which
  // alternate in one order, whatever the height of a block.
  void add_to_keys(std::int64_t r, Queries queries, bool guarded, T* grad_keys) const {
    if (!double_.is_on()) return add_rows(gradients_, r, queries, guarded, query_rows_, query_columns_, grad_keys);
    const std::int64_t end = queries.first + queries.count;
    for (std::int64_t first = queries.first; first < end; first += kSumQueries<T>) {
      const Queries some{first, std::min<std::int64_t>(kSumQueries<T>, end - first)};
      add_rows(gradients_, r, some, guarded, query_rows_, query_columns_, grad_keys);
      add_rows(third_tile_, r, some, guarded, double_.query_rows(), query_columns_, grad_keys);
    }
  }

  // sums [kTileRows][columns] += tiles [kTileRows][query] x rows [query][columns], of the tile in row r and these
  // queries. `guarded`: pairs whose weight is -0 are left out.
  void add_rows(const T* tiles, std::int64_t r, Queries of, bool guarded, const T* rows, std::int64_t columns,
                T* sums) const {
    const std::int64_t queries = of.count;
    const T* tile = tiles + r * kColumns + of.first;
    rows += of.first * columns;
    if (HWY_UNLIKELY(guarded)) {
      return add_visible_rows(tile, weights_ + r * kColumns + of.first, rows, queries, columns, sums);
    }
    std::int64_t left = columns / kLanes<T>;
    while (left > 0) {
      const std::int64_t at = columns - left * kLanes<T>;
      if (left == 1) {
        sum_over_queries<kTileRows, 1>(tile, kColumns, rows + at, columns, queries, sums + at);
        left -= 1;
      } else if (left == 2 || left == 4) {  // two halves of 4 beat 3 + 1
        sum_over_queries<kTileRows, 2>(tile, kColumns, rows + at, columns, queries, sums + at);
        left -= 2;
      } else {
        sum_over_queries<kTileRows, 3>(tile, kColumns, rows + at, columns, queries, sums + at);
        left -= 3;
      }
    }
  }

  HWY_NOINLINE void add_visible_rows(const T* tile, const T* marks, const T* rows, std::int64_t queries,
                                     std::int64_t columns, T* sums) const {
    const Tag<T> d;
    for (std::int64_t r = 0; r < kTileRows; ++r, sums += columns) {
      for (std::int64_t i = 0; i < queries; ++i) {
        const T mark = marks[r * kColumns + i];
        if (mark == 0 && std::signbit(mark)) continue;
        const Vec<T> factor = hn::Set(d, tile[r * kColumns + i]);
        for (std::int64_t c = 0; c < columns; c += kLanes<T>) {
          hn::Store(hn::MulAdd(factor, hn::Load(d, rows + i * columns + c), hn::Load(d, sums + c)), d, sums + c);
        }
      }
    }
  }

  // scale * grad_query_, as rows, over the query rows.
  const T* scaled_query_gradient() {
    const Tag<T> d;
    const Vec<T> scale = hn::Set(d, static_cast<T>(task_.common->scale));
    for (T* at = grad_query_; at < grad_query_ + score_dim_ * kColumns; at += kLanes<T>) {
      hn::Store(hn::Mul(hn::Load(d, at), scale), d, at);
    }
    transpose(grad_query_, kColumns, score_dim_, count_, query_rows_, score_dim_);
    return query_rows_;
  }

  const BackwardTask& backward_;
  const AttentionTask& task_;
  const std::int64_t begin_, count_, score_dim_, query_columns_, value_columns_;
  Visibility<T, kVectors> visibility_;
  BlockDropout<T, kVectors> dropout_;
  BlockLogits<T, kVectors> logits_;
  DoubleBackward<T, kVectors> double_;
  HWY_ALIGN T log_sum_exp_[kColumns], products_[kColumns], delta_[kColumns];
  T* weights_;        // [kBackwardKeys][kColumns]
  T* gradients_;      // of the logits, the same shape
  T* third_tile_;     // the same shape: for bias gradients, or the slopes of the double backward
  T* query_rows_;     // [kColumns][query_columns_]
  T* grad_out_rows_;  // [kColumns][value_columns_]
  T* grad_out_;       // [value_dim][kColumns]
  T* grad_query_;     // [score_dim][kColumns]
  T* grad_v_;         // [hidden][kColumns], of additive scores
  T* tile_values_;    // [kTileRows][value_dim]
  RelativeRows<T, kVectors> relative_;
  ParameterGradients<T, kVectors> parameter_gradients_;
  HWY_ALIGN T key_sums_[kMaxPlanes][kColumns] = {};  // of biases that broadcast along keys
  Rows queries_;                                     // of the block, from row 0 on, of type T
  T* parameters_ = nullptr;                          // [parameter_count]
  bool narrows_ = false;         // vectors of queries that see nothing of a tile need no numbers there
  bool rows_are_finite_ = true;  // those of queries, their tangents, grad_out and out
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
