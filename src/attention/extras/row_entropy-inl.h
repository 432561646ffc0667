// The entropy of the weights of each row of a block of queries, gathered tile by tile in the extras pass. Included once
// per CPU target.

#if defined(QKV_ATTENTION_EXTRAS_ROW_ENTROPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_EXTRAS_ROW_ENTROPY_INL_H_
#undef QKV_ATTENTION_EXTRAS_ROW_ENTROPY_INL_H_
#else
#define QKV_ATTENTION_EXTRAS_ROW_ENTROPY_INL_H_
#endif

#include "attention/tile/attention_task.h"
#include "attention/tile/logits-inl.h"
#include "attention/tile/sinks-inl.h"
#include "core/mathematics.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

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

  // The logits of a tile of keys, -infinity where hidden, of vectors first <= c < last of queries.
  void add(int first, int last, const Tile& logits) {
    const Tag<T> d;
    const Vec<T> unit = unit_of<kUnit, T>(task_);
    for (int c = first; c < last; ++c) {
      const int at = c * kLanes<T>;
      const Vec<T> maximum = hn::Load(d, state_.maximum + at);
      Vec<T> weighted = hn::Zero(d);
      for (int r = 0; r < kTileRows; ++r) {
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

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
