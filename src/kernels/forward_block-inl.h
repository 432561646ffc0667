// One block of queries of one head: transposed once, then run over the keys in tiles. Included once per CPU target.

#if defined(QKV_KERNELS_FORWARD_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_FORWARD_BLOCK_INL_H_
#undef QKV_KERNELS_FORWARD_BLOCK_INL_H_
#else
#define QKV_KERNELS_FORWARD_BLOCK_INL_H_
#endif

#include <cstring>

#include "kernels/accumulate-inl.h"
#include "kernels/attention_forward.h"
#include "kernels/dropout-inl.h"
#include "kernels/exact_product-inl.h"
#include "kernels/fetch_ahead.h"
#include "kernels/logits-inl.h"
#include "kernels/rows-inl.h"
#include "kernels/second_look-inl.h"
#include "kernels/softmax_state-inl.h"
#include "kernels/visibility-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Scratch of a block, in elements of T, each part a multiple of the vector.
template <class T, int kVectors>
struct ForwardScratch {
  explicit ForwardScratch(const AttentionTask& task)
      : logits(task),
        weights(kBlockKeys * kVectors * kLanes<T>),
        out(task.value_dim * kVectors * kLanes<T>),
        value_rows(kBlockKeys * kTileRows) {}

  std::int64_t total() const { return logits.total() + weights + 2 * out + value_rows; }

  LogitScratch<T, kVectors> logits;
  std::int64_t weights, out, value_rows;
};

template <class T, int kVectors>
std::size_t scratch_bytes(const AttentionTask& task) {
  return static_cast<std::size_t>(ForwardScratch<T, kVectors>(task).total()) * sizeof(T);
}

// T: type of the accumulation, S: type of queries, keys and values in memory; Product: how the two products take them.
template <class T, class S, int kVectors, class Product = ExactProduct>
class ForwardBlock {
 public:
  ForwardBlock(const QueryBlock& block, const QueryBlock& next, std::byte* scratch, Product product = {})
      : task_(*block.task),
        begin_(block.begin),
        count_(block.end - block.begin),
        visibility_(task_, begin_, count_),
        dropout_(task_, begin_),
        product_(product),
        logits_(product) {
    const ForwardScratch<T, kVectors> sizes(task_);
    T* at = reinterpret_cast<T*>(scratch);
    weights_ = at;
    out_ = weights_ + sizes.weights;
    chunk_out_ = out_ + sizes.out;
    value_rows_ = chunk_out_ + sizes.out;
    const S* queries = reinterpret_cast<const S*>(task_.query.data) + begin_ * task_.query.step;
    logits_.prepare(task_, begin_, count_, queries, task_.query.step, value_rows_ + sizes.value_rows);
    if (next.task != nullptr) announce(next);
  }

  void run() {
    if (is_plain(task_)) {
      run_in<Unit::base2>();
    } else {
      run_in<Unit::natural>();
    }
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  using State = SoftmaxState<T, kVectors>;
  using Tile = Vec<T>[kTileRows][kVectors];
  using VectorRange = typename Visibility<T, kVectors>::VectorRange;
  using Sight = typename Visibility<T, kVectors>::Sight;

  // What is to be fetched for `next` while this block's tiles are computed.
  void announce(const QueryBlock& next) {
    const AttentionTask& task = *next.task;
    const auto add = [this](const std::byte* data, std::int64_t step, std::int64_t begin, std::int64_t end,
                            std::int64_t size, std::int64_t element) {
      if (data != nullptr) ahead_.add(data + begin * step * element, step * element, end - begin, size * element);
    };
    add(task.query.data, task.query.step, next.begin, next.end, task.query_dim, sizeof(S));
    add(task.out, task.out_step, next.begin, next.end, task.value_dim, task.out_is_accumulator ? sizeof(T) : sizeof(S));
    if (task.key.pages == nullptr && task.key.data != task_.key.data) {
      add(task.key.data, task.key.step, 0, task.k_len, task.key_dim, sizeof(S));
      add(task.value.data, task.value.step, 0, task.k_len, task.value_dim, sizeof(S));
    }
    const std::int64_t tiles = (visibility_.last_key() - visibility_.first_key()) / kTileRows + 1;
    ahead_lines_ = (ahead_.lines() + tiles - 1) / tiles;
  }

  template <Unit kUnit>
  void run_in() {
    state_.reset();
    std::memset(out_, 0, sizeof(T) * task_.value_dim * kColumns);
    const std::int64_t first = visibility_.first_key(), last = visibility_.last_key();
    bool whole = true;  // no earlier chunk: state_ and out_ take the result directly
    for (std::int64_t chunk = first / kChunkKeys * kChunkKeys; chunk < last; chunk += kChunkKeys) {
      State chunk_state;
      State& state = whole ? state_ : chunk_state;
      T* out = whole ? out_ : chunk_out_;
      if (!whole) {
        state.reset();
        std::memset(out, 0, sizeof(T) * task_.value_dim * kColumns);
      }
      const std::int64_t chunk_end = std::min(chunk + kChunkKeys, last);
      std::int64_t block = std::max(first / kBlockKeys * kBlockKeys, chunk);
      for (; block < chunk_end; block += kBlockKeys) {
        const std::int64_t block_first = std::max(first, block), block_last = std::min(block + kBlockKeys, chunk_end);
        if (visibility_.meets(block_first, block_last)) attend_keys<kUnit>(block, block_first, block_last, state, out);
      }
      if (!whole) merge_states<kUnit>(state_, out_, chunk_state, chunk_out_, task_.value_dim);
      whole = false;
    }
    if (task_.sink != -kInfinity<double>) add_sink<kUnit>();
    if (task_.out != nullptr) write_out();
    if (task_.log_sum_exp != nullptr) write_log_sum_exp<kUnit>();
    if (wants_planes(task_) || wants_sums(task_) || wants_row_statistics(task_)) {
      SecondLook<kUnit, T, S, kVectors, Product>(task_, begin_, count_, visibility_, logits_, state_, weights_).run();
    }
  }

  // A key with a weight and without a value.
  template <Unit kUnit>
  void add_sink() {
    State sink;
    sink.reset();
    std::fill(sink.maximum, sink.maximum + kColumns, sink_of<kUnit, T>(task_));
    std::fill(sink.sum, sink.sum + kColumns, T(1));
    std::memset(chunk_out_, 0, sizeof(T) * task_.value_dim * kColumns);
    merge_states<kUnit>(state_, out_, sink, chunk_out_, task_.value_dim);
  }

  // Keys first <= j < last, within the block that begins at `block`.
  template <Unit kUnit>
  void attend_keys(std::int64_t block, std::int64_t first, std::int64_t last, State& state, T* out) {
    const std::int64_t first_row = (first - block) / kTileRows * kTileRows;
    VectorRange taken[kBlockKeys / kTileRows];  // the vectors of queries that take part in a tile
    bool masked = false;
    for (std::int64_t row = first_row; block + row < last; row += kTileRows) {
      const std::int64_t key = block + row;
      VectorRange& range = taken[row / kTileRows];
      range = {0, kVectors};
      ahead_.fetch(ahead_lines_);
      bool seen = visibility_.sees_all(key, kTileRows);
      if (!seen) {
        visibility_.look(key);
        const Sight sight = visibility_.sight(key);
        if (sight == Sight::none) {
          range = {0, 0};
          continue;
        }
        seen = sight == Sight::all;
      }
      if (!seen) {
        masked = true;
        // Edges, as the causal one: products for the vectors that see nothing would be up to half of a block's.
        if constexpr (kUnit == Unit::base2 && kVectors > 1) {
          range = visibility_.vectors_seeing(key);
          if (range.end - range.begin == 1) {
            absorb_some<1>(block, first_row, row, range.begin, state, out);
            continue;
          }
          if constexpr (kVectors > 2) {
            if (range.end - range.begin == 2) {
              absorb_some<2>(block, first_row, row, range.begin, state, out);
              continue;
            }
          }
        }
      }
      Tile tile;
      logits_.template compute<kUnit, S>(task_, key, tile);
      if (seen) {
        absorb<kUnit, false>(block, first_row, row, /*vector=*/0, tile, state, out);
      } else {
        visibility_.hide(key, tile);
        absorb<kUnit, true>(block, first_row, row, /*vector=*/0, tile, state, out);
      }
    }
    state.finish_block();
    if (task_.out == nullptr) return;
    if (dropout_.is_on()) dropout_.drop(block + first_row, last - block - first_row, weights_ + first_row * kColumns);
    for (std::int64_t key = block + first_row; key < last;) {
      const std::int64_t tile = (key - block) / kTileRows;
      std::int64_t end = tile + 1;
      while (block + end * kTileRows < last && taken[end] == taken[tile]) ++end;
      const auto values = product_.template value_rows<S>(task_.value, key, std::min(last, block + end * kTileRows));
      if (taken[tile].begin < taken[tile].end) {
        add_values(values, key - block, taken[tile], masked && !values.are_finite(task_.value_dim), out);
      }
      key += values.count;
    }
  }

  // Values times weights, which begin in row `row`, for some vectors of queries.
  template <class ValueRows>
  void add_values(const ValueRows& values, std::int64_t row, VectorRange range, bool guarded, T* out) {
    const std::int64_t column = range.begin * kLanes<T>;
    T* weights = weights_ + row * kColumns + column;
    const T* marks = guarded ? weights : nullptr;
    if (range.end - range.begin == kVectors) {
      accumulate<kVectors>(values, task_.value_dim, weights, marks, value_rows_, out);
    } else if (range.end - range.begin == 1) {
      accumulate<1, kVectors>(values, task_.value_dim, weights, marks, value_rows_, out + column);
    } else if constexpr (kVectors > 2) {
      accumulate<2, kVectors>(values, task_.value_dim, weights, marks, value_rows_, out + column);
    }
  }

  // A masked tile for kCount vectors of queries, from `vector` on.
  template <int kCount>
  HWY_NOINLINE void absorb_some(std::int64_t block, std::int64_t first_row, std::int64_t row, int vector, State& state,
                                T* out) {
    Vec<T> tile[kTileRows][kCount];
    logits_.template compute_some<S>(task_, block + row, vector, tile);
    visibility_.hide(block + row, tile, vector);
    absorb<Unit::base2, true>(block, first_row, row, vector, tile, state, out);
  }

  // The tile's logits become weights in rows `row` and below; a hidden key's weight is -0, so that the guarded product
  // can tell it from a weight that vanished. The tile's first vector of queries is `vector`.
  template <Unit kUnit, bool kMasked, int kCount>
  HWY_INLINE void absorb(std::int64_t block, std::int64_t first_row, std::int64_t row, int vector,
                         const Vec<T> (&tile)[kTileRows][kCount], State& state, T* out) {
    const Tag<T> d;
    const std::int64_t column = vector * kLanes<T>;
    Vec<T> top[kCount];
    QKV_UNROLL for (int c = 0; c < kCount; ++c) {
      top[c] = tile[0][c];
      QKV_UNROLL for (int r = 1; r < kTileRows; ++r) top[c] = hn::Max(top[c], tile[r][c]);
    }
    const Vec<T> unit = unit_of<kUnit, T>(task_);
    if (HWY_UNLIKELY(state.is_exceeded_by(top, unit, vector))) {
      Vec<T> factor[kCount];
      state.template move_maximum<kUnit>(top, unit, vector, factor);
      scale_columns(weights_ + first_row * kColumns + column, kColumns, row - first_row, factor);
      scale_columns(out + column, kColumns, task_.value_dim, factor);
    }
    T* weights = weights_ + row * kColumns + column;
    QKV_UNROLL for (int c = 0; c < kCount; ++c) {
      const Vec<T> maximum = hn::Load(d, state.maximum + column + c * kLanes<T>);
      Vec<T> sum = hn::Load(d, state.block + column + c * kLanes<T>);
      QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
        Vec<T> weight = Product::template weight<kUnit, T>(hn::Sub(hn::Mul(tile[r][c], unit), maximum));
        sum = hn::Add(sum, weight);
        if constexpr (kMasked) {
          weight = hn::IfThenElse(visibility_.hidden(block + row, r, vector + c), hn::Set(d, T(-0.0)), weight);
        }
        hn::Store(weight, d, weights + r * kColumns + c * kLanes<T>);
      }
      hn::Store(sum, d, state.block + column + c * kLanes<T>);
    }
  }

  // 1 / sum per query of vector c, 0 for a query without keys.
  HWY_INLINE Vec<T> inverse_sum(int c) const {
    const Tag<T> d;
    const Vec<T> sum = hn::Load(d, state_.sum + c * kLanes<T>);
    return hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(hn::Set(d, T(1)), sum));
  }

  void write_out() {
    if constexpr (sizeof(S) != sizeof(T)) {
      if (!task_.out_is_accumulator) return write_out_as<S>();
    }
    write_out_as<T>();
  }

  template <class Out>
  void write_out_as() {
    for (int c = 0; c < kVectors && c * kLanes<T> < count_; ++c) {
      const std::int64_t first = c * kLanes<T>;
      const std::int64_t rows = HWY_MIN(count_ - first, kLanes<T>);
      Out* target = reinterpret_cast<Out*>(task_.out) + (begin_ + first) * task_.out_step;
      lanes_to_rows(out_ + first, kColumns, rows, task_.value_dim, inverse_sum(c), target, task_.out_step);
    }
  }

  template <Unit kUnit>
  void write_log_sum_exp() {
    T* target = reinterpret_cast<T*>(task_.log_sum_exp) + begin_ * task_.log_sum_exp_step;
    for (std::int64_t i = 0; i < count_; ++i, target += task_.log_sum_exp_step) {
      *target = log_sum_exp(state_.maximum[i], state_.sum[i], kUnit == Unit::base2 ? kLn2 : 1.0);
    }
  }

  const AttentionTask& task_;
  const std::int64_t begin_, count_;
  Visibility<T, kVectors> visibility_;
  BlockDropout<T, kVectors> dropout_;
  Product product_;
  BlockLogits<T, kVectors, Product> logits_;
  FetchAhead ahead_;
  std::int64_t ahead_lines_ = 0;  // per tile
  State state_;
  T* weights_;     // [kBlockKeys][kColumns]
  T* out_;         // [value_dim][kColumns]
  T* chunk_out_;   // the same, of a later chunk
  T* value_rows_;  // [kBlockKeys][kTileRows]: a slice of the values in T
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
