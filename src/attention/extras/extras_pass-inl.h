// The extras pass: a second pass over the keys of a block of queries that writes the requested weights, logits, sums
// and entropy, from the maximum and sum of each row and the same logits, bit for bit. And the largest weights, whose
// keys the first pass gathers. Included once per CPU target.

#if defined(QKV_ATTENTION_EXTRAS_EXTRAS_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_EXTRAS_EXTRAS_PASS_INL_H_
#undef QKV_ATTENTION_EXTRAS_EXTRAS_PASS_INL_H_
#else
#define QKV_ATTENTION_EXTRAS_EXTRAS_PASS_INL_H_
#endif

#include <algorithm>
#include <utility>

#include "attention/extras/weight_sums.h"
#include "attention/tile/attention_task.h"
#include "attention/tile/logits-inl.h"
#include "attention/tile/query_sums-inl.h"
#include "attention/tile/sinks-inl.h"
#include "attention/tile/tile_walk-inl.h"
#include "core/mathematics.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// The entropy of the weights of each row of a block of queries, gathered tile by tile in the extras pass.
template <Unit kUnit, class T, int kVectors>
class RowEntropy {
 public:
  using State = SoftmaxState<T, kVectors>;
  using Tile = Vec<T>[kTileRows][kVectors];

  RowEntropy(const AttentionTask& task, const State& state) : task_(task), state_(state) {
    for (int i = 0; i < kColumns; ++i) {
      const double sink = sink_of<kUnit, T>(task) - state.maximum[i];
      weighted_[i] = has_sink(task) ? exp(sink * kUnitLogarithm<kUnit>) * sink : 0;
    }
  }

  // The logits of a tile of keys, -infinity where hidden, of vectors begin <= c < end of queries.
  void add(int begin, int end, const Tile& logits) {
    const Tag<T> d;
    const Vec<T> unit = unit_of<kUnit, T>(task_);
    for (int c = begin; c < end; ++c) {
      const int at = c * kLanes<T>;
      const Vec<T> maximum = hn::Load(d, state_.maximum + at);
      for (int first = 0; first < kTileRows; first += kStepRows) {
        Vec<T> weighted = hn::Zero(d);
        for (int r = first; r < first + kStepRows; ++r) {
          const Vec<T> relative = hn::Sub(hn::Mul(logits[r][c], unit), maximum);
          const Vec<T> weight = power<kUnit, T>(relative);
          // A weight of 0 has no share, and its logit may be infinite.
          weighted = hn::Add(weighted, hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), hn::Mul(weight, relative)));
        }
        HWY_ALIGN T share[kLanes<T>];
        hn::Store(weighted, d, share);
        for (int lane = 0; lane < kLanes<T>; ++lane) weighted_[at + lane] += share[lane];
      }
    }
  }

  // log(sum) - the mean of the relative logits, of queries begin <= i < begin + count.
  void write(std::int64_t begin, std::int64_t count) const {
    T* target = reinterpret_cast<T*>(task_.entropy.data) + begin * task_.entropy.step;
    for (std::int64_t i = 0; i < count; ++i, target += task_.entropy.step) {
      const double sum = state_.sum[i];
      *target = static_cast<T>(sum == 0 ? 0 : log(sum) - weighted_[i] / sum * kUnitLogarithm<kUnit>);
    }
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;

  const AttentionTask& task_;
  const State& state_;
  double weighted_[kColumns];  // sum of weight * relative logit; long sums would lose bits in float
};

// The keys with the largest weights of each row of a block of queries: tiles of logits come in while outputs are
// computed, and become weights when the rows' maxima and sums are known.
template <class T, int kVectors>
class TopKeys {
 public:
  // `memory`: scratch_size() elements, aligned to vectors.
  TopKeys(const AttentionTask& task, std::int64_t begin, std::int64_t count, T* memory)
      : task_(task),
        begin_(begin),
        count_(count),
        rows_(task.top_keys.data == nullptr ? 0 : task.common->top_count),
        logits_(memory),
        keys_(reinterpret_cast<Index*>(memory + rows_ * kColumns)) {
    if (!is_on()) return;
    std::fill_n(keys_, rows_ * kColumns, Index{-1});
    for (T* row = logits_; row < logits_ + rows_ * kColumns; row += kColumns) {
      std::fill(row, row + count, -kInfinity<T>);
      std::fill(row + count, row + kColumns, kInfinity<T>);  // lanes without a query have no key that enters
    }
  }

  static std::int64_t scratch_size(const AttentionTask& task) { return 2 * task.common->top_count * kColumns; }

  bool is_on() const { return rows_ > 0; }

  // The logits of keys key ... key + kTileRows - 1, -infinity where hidden, of kCount vectors of queries from `vector`
  // on. To be called for rising keys.
  template <int kCount>
  HWY_NOINLINE void add(std::int64_t key, int vector, const Vec<T> (&logits)[kTileRows][kCount]) {
    const Tag<T> d;
    for (int c = 0; c < kCount; ++c) {
      const std::int64_t column = (vector + c) * kLanes<T>;
      const T* least = logits_ + (rows_ - 1) * kColumns + column;
      auto enters = hn::Gt(logits[0][c], hn::Load(d, least));
      for (int r = 1; r < kTileRows; ++r) enters = hn::Or(enters, hn::Gt(logits[r][c], hn::Load(d, least)));
      if (hn::AllFalse(d, enters)) continue;
      for (int r = 0; r < kTileRows; ++r) {
        if (!hn::AllFalse(d, hn::Gt(logits[r][c], hn::Load(d, least)))) insert(key + r, column, logits[r][c]);
      }
    }
  }

  template <Unit kUnit>
  void write(const SoftmaxState<T, kVectors>& state) const {
    const T unit = hn::GetLane(unit_of<kUnit, T>(task_));
    for (std::int64_t i = 0; i < count_; ++i) {
      auto* keys = reinterpret_cast<std::int64_t*>(task_.top_keys.data) + (begin_ + i) * task_.top_keys.step;
      T* weights = reinterpret_cast<T*>(task_.top_weights.data) + (begin_ + i) * task_.top_weights.step;
      const double sum = state.sum[i];
      for (std::int64_t n = 0; n < rows_; ++n) {
        keys[n] = keys_[n * kColumns + i];
        const double relative = (logits_[n * kColumns + i] * unit - state.maximum[i]) * kUnitLogarithm<kUnit>;
        weights[n] = keys[n] < 0 ? T(0) : static_cast<T>(exp(relative) / sum);
      }
    }
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  using Index = hwy::MakeSigned<T>;

  // Into the falling columns of the lanes whose least logit this one exceeds, from there up. Of equal logits the lower
  // key stays in front.
  HWY_INLINE void insert(std::int64_t key, std::int64_t column, Vec<T> logit) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> index_tag;
    const auto index = hn::Set(index_tag, static_cast<Index>(key));
    std::int64_t at = (rows_ - 1) * kColumns + column;
    auto enters = hn::Gt(logit, hn::Load(d, logits_ + at));
    for (; at >= kColumns; at -= kColumns) {
      const Vec<T> above = hn::Load(d, logits_ + at - kColumns);
      const auto passes = hn::Gt(logit, above);
      const auto index_passes = hn::RebindMask(index_tag, passes), index_enters = hn::RebindMask(index_tag, enters);
      const auto key_here = hn::IfThenElse(index_enters, index, hn::Load(index_tag, keys_ + at));
      const auto key_above = hn::Load(index_tag, keys_ + at - kColumns);
      const Vec<T> here = hn::IfThenElse(enters, logit, hn::Load(d, logits_ + at));
      hn::Store(hn::IfThenElse(passes, above, here), d, logits_ + at);
      hn::Store(hn::IfThenElse(index_passes, key_above, key_here), index_tag, keys_ + at);
      if (hn::AllFalse(d, passes)) return;
      enters = passes;
    }
    hn::Store(hn::IfThenElse(enters, logit, hn::Load(d, logits_ + at)), d, logits_ + at);
    hn::Store(hn::IfThenElse(hn::RebindMask(index_tag, enters), index, hn::Load(index_tag, keys_ + at)), index_tag,
              keys_ + at);
  }

  const AttentionTask& task_;
  const std::int64_t begin_, count_, rows_;
  T* logits_;    // [rows_][kColumns], falling
  Index* keys_;  // the same; -1: none
};

inline bool wants_planes(const AttentionTask& task) {
  return task.weights.data != nullptr || task.logits.data != nullptr || task.chosen_count > 0;
}

inline bool wants_sums(const AttentionTask& task) {
  return task.received.data != nullptr || task.block_weights != nullptr;
}

inline bool wants_places(const AttentionTask& task) {
  return task.self_weight.data != nullptr || task.previous_weight.data != nullptr;
}

inline bool wants_weights(const AttentionTask& task) {
  return wants_planes(task) || wants_sums(task) || wants_places(task);
}

inline bool wants_extras_pass(const AttentionTask& task) { return wants_weights(task) || task.entropy.data != nullptr; }

template <Unit kUnit, class T, int kVectors, class Product>
class ExtrasPass {
 public:
  using State = SoftmaxState<T, kVectors>;

  // `scratch`: two tiles.
  ExtrasPass(const AttentionTask& task, std::int64_t begin, std::int64_t count, Visibility<T, kVectors>& visibility,
             BlockLogits<T, kVectors, Product>& logits, const State& state, T* scratch)
      : task_(task),
        begin_(begin),
        count_(count),
        visibility_(visibility),
        logits_(logits),
        state_(state),
        entropy_(task, state),
        turn_(task, begin / kTileColumns<T>),
        weight_tile_(scratch),
        logit_tile_(scratch + kTileRows * kColumns) {
    for (std::int64_t i = 0; task_.block_weights != nullptr && i < count_; ++i) {
      part_[i] = (begin_ + i) * task_.common->block_rows / task_.q_len;
    }
  }

  // What the mask hides is not computed: its weights are 0. Only in a row whose sum is NaN they are NaN, too.
  void run() {
    write_places(0, 0);
    if (wants_weights(task_) && has_nan_row()) {
      walk_tiles(visibility_, 0, task_.k_len,
                 [&](std::int64_t key, Coverage coverage) { visit(key, coverage, {0, kVectors}); });
    } else {
      walk_blocks<kBlockKeys>(visibility_, 0, task_.k_len,
                              [&](std::int64_t, std::int64_t first, std::int64_t last, bool visible) {
                                if (visible) visit_visible(first, last);
                              });
    }
    fill_planes(task_.common->row_length);
    finish_column();
    if (wants_sums(task_)) turn_.finish();
    if (wants_entropy()) entropy_.write(begin_, count_);
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  using Tile = Vec<T>[kTileRows][kVectors];
  using Coverage = typename Visibility<T, kVectors>::Coverage;
  using VectorRange = typename Visibility<T, kVectors>::VectorRange;

  bool wants_entropy() const { return task_.entropy.data != nullptr; }

  bool has_nan_row() const {
    return std::any_of(state_.sum, state_.sum + count_, [](T sum) { return sum != sum; });
  }

  void visit_visible(std::int64_t first, std::int64_t last) {
    walk_tiles(visibility_, first, last, [&](std::int64_t key, Coverage coverage) {
      if (coverage == Coverage::none) return;
      visit(key, coverage, coverage == Coverage::all ? VectorRange{0, kVectors} : visibility_.vectors_seeing(key));
    });
  }

  // The tile of keys that begins at `key`, of which the vectors of queries outside `seeing` see nothing.
  void visit(std::int64_t key, Coverage coverage, VectorRange seeing) {
    Tile tile;
    compute(key, coverage, seeing, tile);
    if (wants_entropy()) entropy_.add(seeing.begin, seeing.end, tile);
    if (!wants_weights(task_)) return;
    weigh(tile);
    const std::int64_t rows = std::min<std::int64_t>(kTileRows, task_.k_len - key);
    write_places(key, rows);
    fill_planes(key);
    write_plane(task_.weights, key, rows, weight_tile_);
    write_plane(task_.logits, key, rows, logit_tile_);
    write_chosen(key, rows);
    written_ = key + rows;
    if (!wants_sums(task_)) return;
    move_to_column(key);  // before this block's turn in that segment is over
    turn_.reach(key, key + rows);
    for (std::int64_t r = 0; r < rows; ++r) add_sums(key + r, weight_tile_ + r * kColumns);
  }

  // Logits, -infinity where hidden.
  void compute(std::int64_t key, Coverage coverage, VectorRange seeing, Tile& tile) {
    if constexpr (kUnit == Unit::base2 && kVectors > 1) {
      if (seeing.end - seeing.begin == 1) return compute_some<1>(key, seeing.begin, tile);
      if constexpr (kVectors > 2) {
        if (seeing.end - seeing.begin == 2) return compute_some<2>(key, seeing.begin, tile);
      }
    }
    logits_.template compute<kUnit>(task_, key, tile);
    if (coverage != Coverage::all) visibility_.hide(key, tile);
  }

  // The same for kCount vectors of queries, from `vector` on.
  template <int kCount>
  HWY_NOINLINE void compute_some(std::int64_t key, int vector, Tile& tile) {
    Vec<T> some[kTileRows][kCount];
    logits_.compute_some(task_, key, vector, some);
    visibility_.hide(key, some, vector);
    for (int r = 0; r < kTileRows; ++r) {
      std::fill(tile[r], tile[r] + kVectors, hn::Set(Tag<T>(), -kInfinity<T>));
      std::copy(some[r], some[r] + kCount, tile[r] + vector);
    }
  }

  // Weights, and logits in natural units. Lanes without a query have weight 0.
  void weigh(const Tile& tile) {
    const Tag<T> d;
    const Vec<T> unit = unit_of<kUnit, T>(task_), natural = hn::Set(d, natural_unit_of<kUnit, T>(task_));
    for (int c = 0; c < kVectors; ++c) {
      const int at = c * kLanes<T>;
      const Vec<T> maximum = hn::Load(d, state_.maximum + at), sum = hn::Load(d, state_.sum + at);
      const auto used = hn::Lt(hn::Iota(d, static_cast<T>(at)), hn::Set(d, static_cast<T>(count_)));
      const auto empty = hn::Eq(sum, hn::Zero(d));
      const Vec<T> inverse = hn::IfThenZeroElse(empty, hn::Div(hn::Set(d, T(1)), sum));
      for (int r = 0; r < kTileRows; ++r) {
        const Vec<T> above = hn::Sub(hn::Mul(tile[r][c], unit), maximum);
        // Lanes without a query may hold NaN, which a product with 0 would leave.
        const Vec<T> weight = hn::IfThenElseZero(used, hn::Mul(Product::template weight<kUnit, T>(above), inverse));
        hn::Store(weight, d, weight_tile_ + r * kColumns + at);
        hn::Store(hn::Mul(tile[r][c], natural), d, logit_tile_ + r * kColumns + at);
      }
    }
  }

  void write_plane(const OutputRows& plane, std::int64_t key, std::int64_t rows, const T* tile) const {
    if (plane.data == nullptr) return;
    transpose(tile, kColumns, rows, count_, reinterpret_cast<T*>(plane.data) + begin_ * plane.step + key, plane.step);
  }

  // Of `rows` keys from `key` on, the weights at each query's own position and at the one before; of none, 0 for all.
  void write_places(std::int64_t key, std::int64_t rows) const {
    if (!wants_places(task_)) return;
    for (const auto& [output, before] : {std::pair(task_.self_weight, 0), {task_.previous_weight, 1}}) {
      T* to = reinterpret_cast<T*>(output.data) + begin_ * output.step;
      for (std::int64_t i = 0; output.data != nullptr && i < count_; ++i, to += output.step) {
        const std::int64_t row = begin_ + i + task_.offset - before - key;
        if (rows == 0) *to = 0;
        if (row >= 0 && row < rows) *to = weight_tile_[row * kColumns + i];
      }
    }
  }

  T* chosen_row(std::int64_t n) const {
    return reinterpret_cast<T*>(task_.row_weights.data) + task_.chosen[n].place * task_.row_weights.step;
  }
  void write_chosen(std::int64_t key, std::int64_t rows) const {
    if (task_.chosen_count == 0) return;
    T* of_queries = logit_tile_;  // logits are not asked for beside them
    transpose(weight_tile_, kColumns, rows, count_, of_queries, kTileRows);
    for (std::int64_t n = 0; n < task_.chosen_count; ++n) {
      std::copy_n(of_queries + (task_.chosen[n].query - begin_) * kTileRows, rows, chosen_row(n) + key);
    }
  }

  // What nobody sees of the planes, up to key `end`.
  void fill_planes(std::int64_t end) {
    fill_plane(task_.weights, end, T(0));
    fill_plane(task_.logits, end, -kInfinity<T>);
    for (std::int64_t n = 0; written_ < end && n < task_.chosen_count; ++n) {
      std::fill(chosen_row(n) + written_, chosen_row(n) + end, T(0));
    }
    written_ = std::max(written_, end);
  }
  void fill_plane(const OutputRows& plane, std::int64_t end, T value) const {
    if (plane.data == nullptr) return;
    for (std::int64_t i = 0; written_ < end && i < count_; ++i) {
      T* row = reinterpret_cast<T*>(plane.data) + (begin_ + i) * plane.step;
      std::fill(row + written_, row + end, value);
    }
  }

  // One key's weights into the sums over queries.
  void add_sums(std::int64_t key, const T* weights) {
    if (task_.received.data != nullptr) {
      double& received = reinterpret_cast<double*>(task_.received.data)[key];
      for_each_query_sum<kVectors>(weights, [&](T sum) { received += static_cast<double>(sum); });
    }
    if (task_.block_weights == nullptr) return;
    move_to_column(key);
    for (int i = 0; i < kColumns; ++i) column_sums_[i] += static_cast<double>(weights[i]);
  }

  // The parts that a key belongs to are sums of each query's keys first, added in order of queries when the last of
  // these keys is over.
  void move_to_column(std::int64_t key) {
    if (task_.block_weights == nullptr) return;
    const std::int64_t next = key * task_.common->block_columns / task_.k_len;
    if (next != column_) finish_column();
    column_ = next;
  }
  void finish_column() {
    if (task_.block_weights == nullptr || column_ < 0) return;
    double* to = reinterpret_cast<double*>(task_.block_weights) + column_;
    for (std::int64_t i = 0; i < count_; ++i) to[part_[i] * task_.common->block_columns] += column_sums_[i];
    std::fill_n(column_sums_, kColumns, 0.0);
  }

  const AttentionTask& task_;
  const std::int64_t begin_, count_;
  Visibility<T, kVectors>& visibility_;
  BlockLogits<T, kVectors, Product>& logits_;
  const State& state_;
  RowEntropy<kUnit, T, kVectors> entropy_;
  SumTurn turn_;
  T* weight_tile_;
  T* logit_tile_;
  std::int64_t written_ = 0;  // keys of the planes
  // Of the averages over parts: each query's row of them, its sum over the keys so far of a column, and this column.
  std::int64_t part_[kColumns];
  double column_sums_[kColumns] = {};
  std::int64_t column_ = -1;
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
