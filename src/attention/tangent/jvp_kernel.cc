// The kernel of attention_jvp(), compiled once per CPU target: the forward-mode derivative of one block of queries.
// Weights, and weights times the tangents of their logits, are tiles [key][query]; sums over keys have vectors over
// queries. The formula: attention_jvp.h.
#include "attention/tangent/jvp_kernel.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/tangent/jvp_kernel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/depth_steps-inl.h"
// Only after it, what multiplies.
#include "attention/tangent/tangent_logits-inl.h"
#include "attention/tile/accumulate-inl.h"
#include "attention/tile/recompute-inl.h"
#include "attention/tile/tile_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Sizes in elements of T.
template <class T, int kVectors>
struct JvpScratch {
  static constexpr std::int64_t kColumns = kVectors * kLanes<T>;

  explicit JvpScratch(const AttentionTask& task)
      : tile(kBackwardKeys * kColumns),
        sums(kColumns * whole_vectors<T>(task.common->value_dim)),
        logits(LogitScratch<T, kVectors>(task).total()),
        tangent_logits(TangentLogits<T, kVectors>::scratch_size(task)) {}

  std::int64_t total() const { return 2 * tile + 2 * sums + logits + tangent_logits; }

  std::int64_t tile, sums, logits, tangent_logits;
};

template <class T, int kVectors>
class JvpBlock {
 public:
  JvpBlock(const JvpTask& jvp, std::int64_t begin, std::int64_t end, ScratchRoom scratch)
      : jvp_(jvp),
        task_(jvp.forward),
        begin_(begin),
        count_(end - begin),
        visibility_(task_, begin, count_),
        tangent_logits_(task_, jvp.tangents) {
    const JvpScratch<T, kVectors> sizes(task_);
    weights_ = scratch.take<T>(sizes.tile);
    slopes_ = scratch.take<T>(sizes.tile);
    sums_ = scratch.take<T>(sizes.sums);
    rows_ = scratch.take<T>(sizes.sums);
    logits_.prepare(task_, begin, count_, from_row(task_.query, begin), scratch);
    tangent_logits_.prepare(begin, count_, scratch);
    std::memset(sums_, 0, sizeof(T) * sizes.sums);
    for (std::int64_t i = 0; i < kColumns; ++i) {
      log_sum_exp_tangent_[i] = weight_sum_[i] = 0;
      log_sum_exp_[i] = i < count_ ? log_sum_exp_of(task_, natural_log_sum_exp(i)) : T(0);
    }
  }

  void run() {
    walk_blocks<kBackwardKeys>(
        visibility_, 0, task_.k_len, [&](std::int64_t, std::int64_t first, std::int64_t last, bool visible) {
          if (!visible) return;
          task_.is_plain ? attend_keys<Unit::base2>(first, last) : attend_keys<Unit::natural>(first, last);
        });
    write();
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  using Tile = Vec<T>[kTileRows][kVectors];
  using Coverage = typename Visibility<T, kVectors>::Coverage;

  T natural_log_sum_exp(std::int64_t i) const {
    return reinterpret_cast<const T*>(jvp_.log_sum_exp)[(begin_ + i) * jvp_.log_sum_exp_step];
  }

  // Keys first <= j < last, of one block.
  template <Unit kUnit>
  void attend_keys(std::int64_t first, std::int64_t last) {
    const std::int64_t first_key = first / kTileRows * kTileRows;
    bool masked = false;
    HWY_ALIGN T slope_sums[kColumns] = {}, weight_sums[kColumns] = {};  // of this block
    walk_tiles(visibility_, first, last, [&](std::int64_t key, Coverage coverage) {
      T* weights = weights_ + (key - first_key) * kColumns;
      T* slopes = slopes_ + (key - first_key) * kColumns;
      if (coverage == Coverage::all) {
        recompute_weights<kUnit, false, kVectors>(task_, key, /*vector=*/0, log_sum_exp_, visibility_, logits_,
                                                  weights);
        multiply_tangents<false>(key, weights, slopes, weight_sums, slope_sums);
      } else {
        masked = true;
        recompute_weights<kUnit, true, kVectors>(task_, key, /*vector=*/0, log_sum_exp_, visibility_, logits_, weights);
        multiply_tangents<true>(key, weights, slopes, weight_sums, slope_sums);
      }
    });
    for (int i = 0; i < kColumns; ++i) {
      log_sum_exp_tangent_[i] += slope_sums[i];
      weight_sum_[i] += weight_sums[i];
    }
    accumulate_values(task_.value, first_key, last, masked, slopes_);
    if (jvp_.tangents.value.data != nullptr) {
      accumulate_values(jvp_.tangents.value, first_key, last, masked, weights_);
    }
  }

  // slopes = weights * tangents of the logits. Both are added to the sums of their rows.
  template <bool kMasked>
  HWY_NOINLINE void multiply_tangents(std::int64_t key, const T* weights, T* slopes, T* weight_sums, T* slope_sums) {
    const Tag<T> d;
    Tile tile;
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) tile[r][c] = hn::Zero(d);
    }
    tangent_logits_.add(key, tile);
    for (int c = 0; c < kVectors; ++c) {
      Vec<T> weight_sum = hn::Load(d, weight_sums + c * kLanes<T>);
      Vec<T> slope_sum = hn::Load(d, slope_sums + c * kLanes<T>);
      for (int r = 0; r < kTileRows; ++r) {
        const std::int64_t at = (r * kVectors + c) * kLanes<T>;
        const Vec<T> weight = hn::Load(d, weights + at);
        Vec<T> slope = hn::Mul(weight, tile[r][c]);
        if constexpr (kMasked) slope = hn::IfThenZeroElse(visibility_.hidden(key, r, c), slope);
        hn::Store(slope, d, slopes + at);
        weight_sum = hn::Add(weight_sum, weight);
        slope_sum = hn::Add(slope_sum, slope);
      }
      hn::Store(weight_sum, d, weight_sums + c * kLanes<T>);
      hn::Store(slope_sum, d, slope_sums + c * kLanes<T>);
    }
  }

  // sums_ += rows of keys first <= j < last times the tiles.
  void accumulate_values(const Rows& rows, std::int64_t first, std::int64_t last, bool masked, const T* tiles) {
    const KeyRows<T> values{reinterpret_cast<const T*>(rows.data) + first * rows.step, rows.step, last - first};
    const bool guarded = masked && !values.are_finite(task_.common->value_dim);
    accumulate<kVectors>(values, task_.common->value_dim, tiles, guarded ? weights_ : nullptr, sums_);
  }

  void write() {
    transpose(sums_, kColumns, task_.common->value_dim, count_, rows_, task_.common->value_dim);
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t query = begin_ + i;
      const T log_sum_exp = natural_log_sum_exp(i);
      const bool has_keys = log_sum_exp != -kInfinity<T>;
      // Without weights of keys the sink has all of it, whatever the rounding of a large log-sum-exp says.
      const bool has_weights = has_keys && weight_sum_[i] != 0;
      const auto sink = power<Unit::natural, T>(hn::Set(Tag<T>(), static_cast<T>(task_.sink) - log_sum_exp));
      const T weight_sum = has_weights ? weight_sum_[i] + hn::GetLane(sink) : T(1);
      const T factor = 1 / weight_sum, of_sum = has_keys ? log_sum_exp_tangent_[i] * factor : T(0);
      put(jvp_.log_sum_exp_tangent, query, of_sum);
      put(jvp_.weight_sum, query, weight_sum);
      if (jvp_.out_tangent.data == nullptr) continue;
      T* to = reinterpret_cast<T*>(jvp_.out_tangent.data) + query * jvp_.out_tangent.step;
      const T* out = reinterpret_cast<const T*>(jvp_.out.data) + query * jvp_.out.step;
      const T* row = rows_ + i * task_.common->value_dim;
      for (std::int64_t e = 0; e < task_.common->value_dim; ++e)
        to[e] = has_keys ? row[e] * factor - of_sum * out[e] : T(0);
    }
  }

  static void put(const OutputRows& to, std::int64_t query, T number) {
    if (to.data != nullptr) reinterpret_cast<T*>(to.data)[query * to.step] = number;
  }

  const JvpTask& jvp_;
  const AttentionTask& task_;
  const std::int64_t begin_, count_;
  Visibility<T, kVectors> visibility_;
  BlockLogits<T, kVectors> logits_;
  TangentLogits<T, kVectors> tangent_logits_;
  HWY_ALIGN T log_sum_exp_[kColumns], log_sum_exp_tangent_[kColumns], weight_sum_[kColumns];
  T* weights_;  // [kBackwardKeys][kColumns]
  T* slopes_;   // weights times tangents of the logits, the same shape
  T* sums_;     // [value_dim][kColumns]
  T* rows_;     // [kColumns][value_dim]
};

template <class T>
void jvp_typed(const JvpTask& task, std::int64_t begin, std::int64_t end, const ScratchRoom& scratch) {
  if (end - begin <= kLanes<T>) return JvpBlock<T, 1>(task, begin, end, scratch).run();
  JvpBlock<T, kTileVectors>(task, begin, end, scratch).run();
}

void jvp(const JvpTask& task, std::int64_t begin, std::int64_t end, const ScratchRoom& scratch) {
  task.forward.visit_accumulation([&]<class T>(T) { jvp_typed<T>(task, begin, end, scratch); });
}

template <class T>
JvpPlan jvp_plan_typed(const AttentionTask& task) {
  return {.block_queries = kTileColumns<T>,
          .scratch_bytes = static_cast<std::size_t>(JvpScratch<T, kTileVectors>(task).total()) * sizeof(T)};
}

JvpPlan jvp_plan(const AttentionTask& task) {
  return task.visit_accumulation([&]<class T>(T) { return jvp_plan_typed<T>(task); });
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::inline attending {
namespace {

HWY_EXPORT(jvp);
HWY_EXPORT(jvp_plan);

}  // namespace

JvpPlan plan_jvp(const AttentionTask& task) { return HWY_DYNAMIC_DISPATCH(jvp_plan)(task); }

void attend_jvp(const JvpTask& task, std::int64_t begin, std::int64_t end, const ScratchRoom& scratch) {
  HWY_DYNAMIC_DISPATCH(jvp)(task, begin, end, scratch);
}

}  // namespace qkv::inline attending
#endif  // HWY_ONCE
