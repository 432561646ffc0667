// The keys with the largest weights of each row of a block of queries: tiles of logits come in while outputs are
// computed, and become weights when the rows' maxima and sums are known. Included once per CPU target.

#if defined(QKV_ATTENTION_EXTRAS_TOP_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_EXTRAS_TOP_KEYS_INL_H_
#undef QKV_ATTENTION_EXTRAS_TOP_KEYS_INL_H_
#else
#define QKV_ATTENTION_EXTRAS_TOP_KEYS_INL_H_
#endif

#include <algorithm>

#include "attention/tile/attention_task.h"
#include "attention/tile/logits-inl.h"
#include "core/mathematics.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

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

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
