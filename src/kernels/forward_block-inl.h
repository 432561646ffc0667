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
#include "kernels/logits-inl.h"
#include "kernels/rows-inl.h"
#include "kernels/second_look-inl.h"
#include "kernels/softmax_state-inl.h"
#include "kernels/visibility-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Keys whose weights are held at once: 128 x 48 floats are 24 KiB, half of a first-level cache.
inline constexpr std::int64_t kBlockKeys = 128;
static_assert(kChunkKeys % kBlockKeys == 0);

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

// T: type of the accumulation, S: type of queries, keys and values in memory.
template <class T, class S, int kVectors>
class ForwardBlock {
 public:
  ForwardBlock(const AttentionTask& task, std::int64_t begin, std::int64_t end, std::byte* scratch)
      : task_(task), begin_(begin), count_(end - begin), visibility_(task, begin, count_), dropout_(task, begin) {
    const ForwardScratch<T, kVectors> sizes(task);
    T* at = reinterpret_cast<T*>(scratch);
    weights_ = at;
    out_ = weights_ + sizes.weights;
    chunk_out_ = out_ + sizes.out;
    value_rows_ = chunk_out_ + sizes.out;
    logits_.template prepare<S>(task, begin, count_, value_rows_ + sizes.value_rows, /*spare=*/weights_);
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
        attend_keys<kUnit>(block, std::max(first, block), std::min(block + kBlockKeys, chunk_end), state, out);
      }
      if (!whole) merge_states<kUnit>(state_, out_, chunk_state, chunk_out_, task_.value_dim);
      whole = false;
    }
    if (task_.out != nullptr) write_out();
    if (task_.log_sum_exp != nullptr) write_log_sum_exp<kUnit>();
    if (wants_planes(task_) || wants_sums(task_) || wants_row_statistics(task_)) {
      SecondLook<kUnit, T, S, kVectors>(task_, begin_, count_, visibility_, logits_, state_, weights_).run();
    }
  }

  // Keys first <= j < last, within the block that begins at `block`.
  template <Unit kUnit>
  void attend_keys(std::int64_t block, std::int64_t first, std::int64_t last, State& state, T* out) {
    const std::int64_t first_row = (first - block) / kTileRows * kTileRows;
    bool masked = false;
    for (std::int64_t row = first_row; block + row < last; row += kTileRows) {
      const std::int64_t key = block + row;
      Tile tile;
      logits_.template compute<kUnit, S>(task_, key, tile);
      if (visibility_.sees_all(key, kTileRows)) {
        absorb<kUnit, false>(block, first_row, row, tile, state, out);
      } else {
        masked = true;
        visibility_.load_booleans(key, kTileRows);
        visibility_.hide(key, tile);
        absorb<kUnit, true>(block, first_row, row, tile, state, out);
      }
    }
    state.finish_block();
    if (task_.out == nullptr) return;
    if (dropout_.is_on()) dropout_.drop(block + first_row, last - block - first_row, weights_ + first_row * kColumns);
    for (std::int64_t key = block + first_row; key < last;) {
      const KeyRows<S> values = rows_from<S>(task_.value, key, last);
      const T* weights = weights_ + (key - block) * kColumns;
      const bool guarded = masked && !values.are_finite(task_.value_dim);
      accumulate<kVectors>(values, task_.value_dim, weights, guarded ? weights : nullptr, value_rows_, out);
      key += values.count;
    }
  }

  // The tile's logits become weights in rows `row` and below; a hidden key's weight is -0, so that the guarded product
  // can tell it from a weight that vanished.
  template <Unit kUnit, bool kMasked>
  HWY_INLINE void absorb(std::int64_t block, std::int64_t first_row, std::int64_t row, Tile& tile, State& state,
                         T* out) {
    const Tag<T> d;
    Vec<T> top[kVectors];
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      top[c] = tile[0][c];
      QKV_UNROLL for (int r = 1; r < kTileRows; ++r) top[c] = hn::Max(top[c], tile[r][c]);
    }
    const Vec<T> unit = unit_of<kUnit, T>(task_);
    if (HWY_UNLIKELY(state.is_exceeded_by(top, unit))) {
      Vec<T> factor[kVectors];
      state.template move_maximum<kUnit>(top, unit, factor);
      scale_columns(weights_ + first_row * kColumns, row - first_row, factor);
      scale_columns(out, task_.value_dim, factor);
    }
    T* weights = weights_ + row * kColumns;
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      const Vec<T> maximum = hn::Load(d, state.maximum + c * kLanes<T>);
      Vec<T> sum = hn::Load(d, state.block + c * kLanes<T>);
      QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
        Vec<T> weight = power<kUnit, T>(hn::Sub(hn::Mul(tile[r][c], unit), maximum));
        sum = hn::Add(sum, weight);
        if constexpr (kMasked) {
          weight = hn::IfThenElse(visibility_.hidden(block + row, r, c), hn::Set(d, T(-0.0)), weight);
        }
        hn::Store(weight, d, weights + (r * kVectors + c) * kLanes<T>);
      }
      hn::Store(sum, d, state.block + c * kLanes<T>);
    }
  }

  // 1 / sum per query, 0 for a query without keys.
  HWY_INLINE Vec<T> inverse_sum(int column) const {
    const Tag<T> d;
    const Vec<T> sum = hn::Load(d, state_.sum + column);
    return hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(hn::Set(d, T(1)), sum));
  }

  void write_out() {
    const Tag<T> d;
    for (std::int64_t at = 0; at < task_.value_dim * kColumns; at += kLanes<T>) {
      const Vec<T> inverse = inverse_sum(static_cast<int>(at % kColumns));
      // Adding 0 turns -0 into 0: whether a hidden key was skipped or added with weight 0 cannot be seen.
      hn::Store(hn::MulAdd(hn::Load(d, out_ + at), inverse, hn::Zero(d)), d, out_ + at);
    }
    if (sizeof(S) == sizeof(T) || task_.out_is_accumulator) {
      T* target = reinterpret_cast<T*>(task_.out) + begin_ * task_.out_step;
      transpose(out_, kColumns, task_.value_dim, count_, target, task_.out_step);
      return;
    }
    if constexpr (sizeof(S) != sizeof(T)) {
      transpose(out_, kColumns, task_.value_dim, count_, chunk_out_, task_.value_dim);
      S* target = reinterpret_cast<S*>(task_.out) + begin_ * task_.out_step;
      for (std::int64_t i = 0; i < count_; ++i) {
        round_row(chunk_out_ + i * task_.value_dim, task_.value_dim, target + i * task_.out_step);
      }
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
  BlockLogits<T, kVectors> logits_;
  State state_;
  T* weights_;     // [kBlockKeys][kColumns]
  T* out_;         // [value_dim][kColumns]
  T* chunk_out_;   // the same, of a later chunk
  T* value_rows_;  // [kBlockKeys][kTileRows]: a slice of the values in T
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
