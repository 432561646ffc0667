// Statistics of the rows of a block of queries, gathered tile by tile in the extras pass: the entropy of the weights,
// and the keys with the largest weights. Included once per CPU target.

#if defined(QKV_ATTENTION_EXTRAS_ROW_STATISTICS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_EXTRAS_ROW_STATISTICS_INL_H_
#undef QKV_ATTENTION_EXTRAS_ROW_STATISTICS_INL_H_
#else
#define QKV_ATTENTION_EXTRAS_ROW_STATISTICS_INL_H_
#endif

#include "attention/tile/attention_task.h"
#include "attention/tile/logits-inl.h"
#include "attention/tile/sinks-inl.h"
#include "core/mathematics.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline bool wants_row_statistics(const AttentionTask& task) {
  return task.entropy.data != nullptr || task.top_keys.data != nullptr;
}

template <Unit kUnit, class T, int kVectors>
class RowStatistics {
 public:
  using Tile = Vec<T>[kTileRows][kVectors];

  RowStatistics(const AttentionTask& task, std::int64_t begin, std::int64_t count,
                const SoftmaxState<T, kVectors>& state)
      : task_(task),
        begin_(begin),
        count_(count),
        top_count_(task.top_keys.data == nullptr ? 0 : task.common->top_count) {
    for (int i = 0; i < kColumns; ++i) {
      maximum_[i] = state.maximum[i];
      sum_[i] = state.sum[i];
      const double sink = sink_of<kUnit, T>(task) - maximum_[i];
      weighted_[i] = has_sink(task) ? exp(sink * kOfUnit) * sink : 0;
      // Lanes without a query never have a key that belongs to the top.
      least_[i] = i < count ? -kInfinity<T> : kInfinity<T>;
    }
    for (std::int64_t i = 0; top_count_ > 0 && i < count; ++i) {
      std::fill_n(top_keys(i), top_count_, -1);
      std::fill_n(top_weights(i), top_count_, -kInfinity<T>);
    }
  }

  // The logits of keys key ... key + kTileRows - 1, -infinity where hidden, of vectors first <= c < last of queries.
  void add(std::int64_t key, int first, int last, const Tile& logits) {
    const Tag<T> d;
    const Vec<T> unit = unit_of<kUnit, T>(task_);
    for (int c = first; c < last; ++c) {
      const int at = c * kLanes<T>;
      const Vec<T> maximum = hn::Load(d, maximum_ + at);
      Vec<T> weighted = hn::Zero(d);
      for (int r = 0; r < kTileRows; ++r) {
        const Vec<T> relative = hn::Sub(hn::Mul(logits[r][c], unit), maximum);
        const Vec<T> weight = power<kUnit, T>(relative);
        // A weight of 0 has no share, and its logit may be infinite.
        weighted = hn::Add(weighted, hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), hn::Mul(weight, relative)));
        const auto enters = hn::Gt(logits[r][c], hn::Load(d, least_ + at));
        if (top_count_ > 0 && HWY_UNLIKELY(!hn::AllFalse(d, enters))) insert(key + r, c, logits[r][c]);
      }
      HWY_ALIGN T share[kLanes<T>];
      hn::Store(weighted, d, share);
      for (int lane = 0; lane < kLanes<T>; ++lane) weighted_[at + lane] += share[lane];
    }
  }

  void write() {
    const T unit = hn::GetLane(unit_of<kUnit, T>(task_));
    for (std::int64_t i = 0; i < count_; ++i) {
      const double sum = sum_[i];
      if (task_.entropy.data != nullptr) {  // log(sum) - the mean of the relative logits
        *row_of<T>(task_.entropy, i) = static_cast<T>(sum == 0 ? 0 : log(sum) - weighted_[i] / sum * kOfUnit);
      }
      for (std::int64_t n = 0; n < top_count_; ++n) {
        T& weight = top_weights(i)[n];
        const double relative = (weight * unit - maximum_[i]) * kOfUnit;
        weight = top_keys(i)[n] < 0 ? T(0) : static_cast<T>(exp(relative) / sum);
      }
    }
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  static constexpr double kOfUnit = kUnit == Unit::base2 ? kLn2 : 1;  // natural logarithm of one unit's power

  template <class Element>
  Element* row_of(const OutputRows& of, std::int64_t i) const {
    return reinterpret_cast<Element*>(of.data) + (begin_ + i) * of.step;
  }
  std::int64_t* top_keys(std::int64_t i) const { return row_of<std::int64_t>(task_.top_keys, i); }
  T* top_weights(std::int64_t i) const { return row_of<T>(task_.top_weights, i); }  // logits until write()

  // Into the falling rows of the lanes whose least entry the logit exceeds. Keys come in rising order, so that of equal
  // logits the lower key stays in front.
  HWY_NOINLINE void insert(std::int64_t key, int vector, Vec<T> logits) {
    HWY_ALIGN T values[kLanes<T>];
    hn::Store(logits, Tag<T>(), values);
    for (int lane = 0; lane < kLanes<T>; ++lane) {
      const std::int64_t i = vector * kLanes<T> + lane;
      if (!(values[lane] > least_[i])) continue;
      std::int64_t* keys = top_keys(i);
      T* row = top_weights(i);
      std::int64_t n = top_count_ - 1;
      for (; n > 0 && row[n - 1] < values[lane]; --n) {
        row[n] = row[n - 1];
        keys[n] = keys[n - 1];
      }
      row[n] = values[lane];
      keys[n] = key;
      least_[i] = row[top_count_ - 1];
    }
  }

  const AttentionTask& task_;
  const std::int64_t begin_, count_, top_count_;
  HWY_ALIGN T maximum_[kColumns];
  HWY_ALIGN T sum_[kColumns];
  double weighted_[kColumns];  // sum of weight * relative logit; long sums would lose bits in float
  HWY_ALIGN T least_[kColumns];
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
