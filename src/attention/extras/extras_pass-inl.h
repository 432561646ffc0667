// The extras pass: a second pass over the keys of a block of queries that writes the requested weights, logits and
// statistics, from the maximum and sum of each row and the same logits, bit for bit. Included once per CPU target.

#if defined(QKV_ATTENTION_EXTRAS_EXTRAS_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_EXTRAS_EXTRAS_PASS_INL_H_
#undef QKV_ATTENTION_EXTRAS_EXTRAS_PASS_INL_H_
#else
#define QKV_ATTENTION_EXTRAS_EXTRAS_PASS_INL_H_
#endif

#include <algorithm>

#include "attention/extras/row_statistics-inl.h"
#include "attention/tile/logits-inl.h"
#include "attention/tile/tile_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline bool wants_planes(const AttentionTask& task) {
  return task.weights.data != nullptr || task.logits.data != nullptr;
}

inline bool wants_sums(const AttentionTask& task) {
  return task.received.data != nullptr || task.block_weights != nullptr;
}

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
        statistics_(task, begin, count, state),
        weight_tile_(scratch),
        logit_tile_(scratch + kTileRows * kColumns) {
    for (std::int64_t i = 0; task_.block_weights != nullptr && i < count_; ++i) {
      const std::int64_t part = (begin_ + i) * task_.common->block_rows / task_.q_len;
      if (spans_ == 0 || span_part_[spans_ - 1] != part) span_part_[spans_++] = part;
      span_end_[spans_ - 1] = static_cast<int>(i) + 1;
    }
  }

  void run() {
    const bool planes = wants_planes(task_);
    const std::int64_t first = planes ? 0 : visibility_.first_key();
    const std::int64_t last = planes ? task_.k_len : visibility_.last_key();
    walk_tiles(visibility_, first, last, [&](std::int64_t key, Coverage coverage) {
      Tile tile;
      logits_.template compute<kUnit>(task_, key, tile);
      if (coverage != Coverage::all) visibility_.hide(key, tile);
      if (wants_row_statistics(task_)) statistics_.add(key, tile);
      if (!planes && !wants_sums(task_)) return;
      weigh(tile);
      const std::int64_t rows = std::min<std::int64_t>(kTileRows, task_.k_len - key);
      write_plane(task_.weights, key, rows, weight_tile_);
      write_plane(task_.logits, key, rows, logit_tile_);
      if (wants_sums(task_)) {
        for (std::int64_t r = 0; r < rows; ++r) add_sums(key + r, weight_tile_ + r * kColumns);
      }
    });
    fill_plane(task_.weights, T(0));
    fill_plane(task_.logits, -kInfinity<T>);
    statistics_.write();
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  using Tile = Vec<T>[kTileRows][kVectors];
  using Coverage = typename Visibility<T, kVectors>::Coverage;

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

  // Beyond the keys of this sequence.
  void fill_plane(const OutputRows& plane, T value) const {
    if (plane.data == nullptr) return;
    for (std::int64_t i = 0; i < count_; ++i) {
      T* row = reinterpret_cast<T*>(plane.data) + (begin_ + i) * plane.step;
      std::fill(row + task_.k_len, row + task_.common->row_length, value);
    }
  }

  // One key's weights into the sums over queries. Blocks of queries come in order, on one thread.
  void add_sums(std::int64_t key, const T* weights) const {
    const Tag<T> d;
    Vec<T> total = hn::Load(d, weights);
    for (int c = 1; c < kVectors; ++c) total = hn::Add(total, hn::Load(d, weights + c * kLanes<T>));
    const double sum = hn::GetLane(hn::SumOfLanes(d, total));
    if (task_.received.data != nullptr) reinterpret_cast<double*>(task_.received.data)[key] += sum;
    if (task_.block_weights == nullptr) return;
    double* column = reinterpret_cast<double*>(task_.block_weights) + key * task_.common->block_columns / task_.k_len;
    if (spans_ == 1) {
      column[span_part_[0] * task_.common->block_columns] += sum;
      return;
    }
    for (int span = 0, i = 0; span < spans_; ++span) {
      double& part = column[span_part_[span] * task_.common->block_columns];
      for (; i < span_end_[span]; ++i) part += weights[i];
    }
  }

  const AttentionTask& task_;
  const std::int64_t begin_, count_;
  Visibility<T, kVectors>& visibility_;
  BlockLogits<T, kVectors, Product>& logits_;
  const State& state_;
  RowStatistics<kUnit, T, kVectors> statistics_;
  T* weight_tile_;
  T* logit_tile_;
  // Runs of queries that belong to one part of the block sums: where each ends, and its part.
  int spans_ = 0;
  std::int64_t span_part_[kColumns];
  int span_end_[kColumns];
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
