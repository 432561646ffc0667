// One query against a chunk of keys, for the query heads of a group: one sequence's, so that they see the same interval
// of keys, but what is added to their logits is each head's own. Included once per CPU target.

#if defined(QKV_ATTENTION_SINGLE_QUERY_SINGLE_QUERY_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_SINGLE_QUERY_SINGLE_QUERY_CHUNK_INL_H_
#undef QKV_ATTENTION_SINGLE_QUERY_SINGLE_QUERY_CHUNK_INL_H_
#else
#define QKV_ATTENTION_SINGLE_QUERY_SINGLE_QUERY_CHUNK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "attention/options/dropout.h"
#include "attention/single_query/query_dots-inl.h"
#include "attention/single_query/single_query_kernel.h"
#include "attention/tile/attention_task.h"
#include "attention/tile/element_masks-inl.h"
#include "attention/tile/interval_masks.h"
#include "attention/tile/logits-inl.h"
#include "attention/tile/sinks-inl.h"
#include "core/mathematics.h"
#include "simd/dispatch.h"
#include "simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Dropout of the weights of a single query: the bits of include/qkv/attention/dropout.h with vectors over keys.

#if HWY_TARGET != HWY_SCALAR
// Lanes whose word of 16 bits is below the threshold.
template <class T>
HWY_INLINE auto are_below(const std::uint16_t* words, std::uint32_t threshold) {
  const hn::Rebind<std::uint16_t, Tag<T>> narrow;
  const hn::Rebind<std::int32_t, Tag<T>> wide;
  const auto below =
      hn::Lt(hn::PromoteTo(wide, hn::LoadU(narrow, words)), hn::Set(wide, static_cast<std::int32_t>(threshold)));
  if constexpr (sizeof(T) == 8) {
    const hn::RebindToSigned<Tag<T>> lanes;
    return hn::RebindMask(Tag<T>(), hn::MaskFromVec(hn::PromoteTo(lanes, hn::VecFromMask(wide, below))));
  } else {
    return hn::RebindMask(Tag<T>(), below);
  }
}
#endif

// weights[j] of keys chunk + j, whole vectors that hold first <= j < last: those that are dropped become 0, the others
// grow by 1 / rate. Products, so that -0, the mark of a hidden key, stays what it is.
template <class T>
HWY_NOINLINE void drop_row(const AttentionTask& task, std::int64_t chunk, std::int64_t first, std::int64_t last,
                           T* weights) {
  const DropoutRule& rule = task.common->dropout;
#if HWY_TARGET == HWY_SCALAR
  DropoutRow row(rule, task.sequence, task.head, /*query=*/0);
  for (std::int64_t j = first; j < last; ++j) weights[j] *= static_cast<T>(row.factor(chunk + j));
#else
  const Tag<T> d;
  const PhiloxCounters::D wide;
  constexpr std::int64_t kBlocks = static_cast<std::int64_t>(hn::MaxLanes(wide)), kWords = kBlocks * DropoutRule::kKeys;
  static_assert(kChunkKeys % kWords == 0 && kWords % kLanes<T> == 0);
  const Vec<T> factor = hn::Set(d, static_cast<T>(rule.factor));
  const std::int64_t end = whole_vectors<T>(last);
  for (std::int64_t at = first / kWords * kWords; at < end; at += kWords) {
    const auto block = static_cast<std::uint64_t>((chunk + at) / DropoutRule::kKeys);
    PhiloxCounters counters(hn::Iota(wide, block), hn::Zero(wide), hn::Set(wide, static_cast<std::uint32_t>(task.head)),
                            hn::Set(wide, static_cast<std::uint32_t>(task.sequence)));
    counters.run<DropoutRule::kRounds>(rule.seed);
    // A block's words, in the order of its keys.
    HWY_ALIGN std::uint64_t bits[2][kBlocks];
    for (int half = 0; half < 2; ++half) {
      const auto low = hn::And(counters.bits(2 * half), hn::Set(wide, 0xffffffff));
      hn::Store(hn::Or(low, hn::ShiftLeft<32>(counters.bits(2 * half + 1))), wide, bits[half]);
    }
    HWY_ALIGN std::uint16_t words[kWords];
    for (std::int64_t n = 0; n < kBlocks; ++n) {
      for (int half = 0; half < 2; ++half) std::memcpy(words + n * DropoutRule::kKeys + half * 4, &bits[half][n], 8);
    }
    for (std::int64_t j = std::max(at, first / kLanes<T> * kLanes<T>); j < std::min(at + kWords, end); j += kLanes<T>) {
      const auto kept = are_below<T>(words + (j - at), rule.threshold);
      hn::Store(hn::Mul(hn::Load(d, weights + j), hn::IfThenElseZero(kept, factor)), d, weights + j);
    }
  }
#endif
}

// Heads and vectors of a value that share it in registers.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kValueTile = 16;
#else
inline constexpr int kValueTile = 8;
#endif
// Converting a value again for each pair of heads would cost more than the order of memory gains.
template <class S>
inline constexpr int kValueHeads = sizeof(S) == 2 ? kHeadTile : 2;
template <class S>
inline constexpr int kValueVectors = kValueTile / kValueHeads<S>;

// out[h][e] += sum over keys of weights[h][j] * values[j][e], in order of keys. kSkip: hidden keys (weight -0) are left
// out. `lanes`: of the last vector.
template <int kHeads, int kCount, bool kSkip, class T, class S, class Lanes = WholeLanes<T>>
HWY_INLINE void sum_values(const S* HWY_RESTRICT values, std::int64_t step, std::int64_t keys,
                           const T* HWY_RESTRICT weights, T* HWY_RESTRICT out, std::int64_t out_step,
                           const Lanes& lanes = {}) {
  const Tag<T> d;
  Vec<T> sum[kHeads][kCount];
  QKV_UNROLL for (int h = 0; h < kHeads; ++h) {
    QKV_UNROLL for (int c = 0; c < kCount; ++c) sum[h][c] = hn::Load(d, out + h * out_step + c * kLanes<T>);
  }
  for (std::int64_t j = 0; j < keys; ++j, values += step) {
    Vec<T> value[kCount];
    QKV_UNROLL for (int c = 0; c + 1 < kCount; ++c) value[c] = load_as(d, values + c * kLanes<T>);
    value[kCount - 1] = load_lanes_as<T>(lanes, values + (kCount - 1) * kLanes<T>);
    QKV_UNROLL for (int h = 0; h < kHeads; ++h) {
      const T weight = weights[h * kChunkKeys + j];
      if (kSkip && std::signbit(weight)) continue;
      QKV_UNROLL for (int c = 0; c < kCount; ++c) sum[h][c] = hn::MulAdd(hn::Set(d, weight), value[c], sum[h][c]);
    }
  }
  QKV_UNROLL for (int h = 0; h < kHeads; ++h) {
    QKV_UNROLL for (int c = 0; c < kCount; ++c) hn::Store(sum[h][c], d, out + h * out_step + c * kLanes<T>);
  }
}

// Sizes in elements of T.
template <class T>
struct SingleQueryScratch {
  SingleQueryScratch(const AttentionTask& task, std::int64_t heads)
      : query_step(whole_sum_lanes<T>(task.common->key_dim)),
        word_step(task.key.type == Dtype::bf16 ? whole_vectors<T>((task.common->key_dim + 1) / 2) : 0),
        queries(heads * query_step),
        words(heads * word_step),
        logits(heads * kChunkKeys) {}

  std::int64_t total() const { return queries + words + logits; }

  std::int64_t query_step, word_step, queries, words, logits;
};

template <class T, class S>
class SingleQueryChunk {
 public:
  SingleQueryChunk(const AttentionTask* tasks, std::int64_t heads, std::int64_t chunk, ScratchRoom scratch)
      : tasks_(tasks), heads_(heads), chunk_(chunk) {
    const SingleQueryScratch<T> sizes(tasks[0], heads);
    query_step_ = sizes.query_step;
    word_step_ = sizes.word_step;
    queries_ = scratch.take<T>(sizes.queries);
    words_ = scratch.take<T>(sizes.words);
    logits_ = scratch.take<T>(sizes.logits);
    const KeyRange keys = keys_of_query(tasks[0], 0);
    first_ = std::clamp(keys.first, chunk, chunk + kChunkKeys);
    last_ = std::clamp(keys.last, first_, chunk + kChunkKeys);
  }

  void run(T* part, std::int64_t row_elements) {
    const Tag<T> d;
    for (std::int64_t at = 0; at < heads_ * row_elements; at += kLanes<T>) hn::Store(hn::Zero(d), d, part + at);
    if (first_ >= last_) return;
    compute_logits();
    for (std::int64_t h = 0; h < heads_; ++h) {
      T* row = part + h * row_elements;
      if (tasks_[h].is_plain) {
        weigh<Unit::base2>(h, row[0], row[1]);
      } else {
        weigh<Unit::natural>(h, row[0], row[1]);
      }
    }
    add_values(part + kLanes<T> * header_vectors(), row_elements);
  }

  // Vectors before a row's out: they hold the maximum and the sum.
  static constexpr std::int64_t header_vectors() { return kLanes<T> == 1 ? 2 : 1; }

  // The rows that tasks ask for, over this chunk, given their maximum and sum.
  void write_planes(const T* part, std::int64_t row_elements) {
    compute_logits();
    for (std::int64_t h = 0; h < heads_; ++h) {
      finish_logits(h);
      const T* row = part + h * row_elements;
      if (tasks_[h].is_plain) {
        write_rows<Unit::base2>(h, row[0], row[1]);
      } else {
        write_rows<Unit::natural>(h, row[0], row[1]);
      }
    }
  }

 private:
  void compute_logits() {
    const Tag<T> d;
    for (std::int64_t h = 0; h < heads_; ++h) {
      T* query = queries_ + h * query_step_;
      const std::int64_t size = tasks_[h].common->query_dim;
      convert_row(reinterpret_cast<const S*>(tasks_[h].query.data), size, query);
      std::fill(query + size, query + query_step_, T(0));
      if (!tasks_[h].is_plain || tasks_[h].common->scale > 0) continue;
      for (std::int64_t e = 0; e < query_step_; e += kLanes<T>) {
        hn::Store(hn::Neg(hn::Load(d, query + e)), d, query + e);
      }
    }
#if HWY_TARGET == HWY_AVX3
    if constexpr (kMayPair) {
      if (pairs_) pack_queries();
    }
#endif
    const std::int64_t ahead = rows_ahead(tasks_[0].key, tasks_[0].common->key_dim);
    for (std::int64_t j = first_; j < last_;) {
      const KeyRows<S> keys = rows_from<S>(tasks_[0].key, j, last_);
      const S* key = keys.data;
      const std::int64_t end = j + keys.count;
      for (; j + kKeyTile <= end; j += kKeyTile, key += kKeyTile * keys.step) {
        fetch(tasks_[0].key, j + ahead, kKeyTile, tasks_[0].common->key_dim);
        dot_keys<kKeyTile>(key, j);
      }
      for (; j < end; ++j, key += keys.step) dot_keys<1>(key, j);
    }
  }

  template <int kKeys>
  HWY_INLINE void dot_keys(const S* keys, std::int64_t j) {
    const std::int64_t step = tasks_[0].key.step, size = tasks_[0].common->key_dim;
    T* logits = logits_ + (j - chunk_);
    std::int64_t h = 0;
#if HWY_TARGET == HWY_AVX3
    if constexpr (kMayPair) {
      if (pairs_) return dot_keys_in_pairs<kKeys>(keys, logits);
    }
#endif
    for (; h + kHeadTile <= heads_; h += kHeadTile) {
      dot_tile<kKeys, kHeadTile>(keys, step, queries_ + h * query_step_, query_step_, size, logits + h * kChunkKeys);
    }
    for (; h < heads_; ++h) {
      dot_tile<kKeys, 1>(keys, step, queries_ + h * query_step_, query_step_, size, logits + h * kChunkKeys);
    }
  }

#if HWY_TARGET == HWY_AVX3
  // Queries as words. The instruction multiplies ordinary ones alone.
  void pack_queries() {
    std::memset(words_, 0, sizeof(T) * static_cast<std::size_t>(heads_ * word_step_));
    for (std::int64_t h = 0; h < heads_; ++h) {
      const T* query = queries_ + h * query_step_;
      auto* to = reinterpret_cast<BFloat16*>(words_ + h * word_step_);
      round_row(query, tasks_[h].common->query_dim, to);  // exact
    }
    has_ordinary_queries_ = is_ordinary_row(words_, heads_ * word_step_);
  }

  template <int kKeys>
  HWY_INLINE void dot_keys_in_pairs(const S* keys, T* logits) {
    std::int64_t h = 0;
    for (; h + kHeadTile <= heads_; h += kHeadTile) dot_heads_in_pairs<kKeys, kHeadTile>(keys, h, logits);
    for (; h < heads_; ++h) dot_heads_in_pairs<kKeys, 1>(keys, h, logits);
  }

  // By the instruction if it gives the bits of f32.
  template <int kKeys, int kHeads>
  HWY_INLINE void dot_heads_in_pairs(const S* keys, std::int64_t h, T* logits) {
    const std::int64_t step = tasks_[0].key.step, size = tasks_[0].common->key_dim;
    const T* words = words_ + h * word_step_;
    T* to = logits + h * kChunkKeys;
    const bool done =
        has_ordinary_queries_ && dot_pairs<kKeys, kHeads, MultiplyPairs>(keys, step, words, word_step_, size, to);
    if (HWY_UNLIKELY(!done)) dot_pairs<kKeys, kHeads, MultiplyPairsInF32>(keys, step, words, word_step_, size, to);
  }
#endif

  // Scale, soft cap and bias of natural logits, and boolean masks, of head h; -infinity around, to whole lanes of sums.
  void finish_logits(std::int64_t h) {
    const AttentionTask& task = tasks_[h];
    T* logits = logits_ + h * kChunkKeys;
    const std::int64_t begin = first_ - chunk_, end = last_ - chunk_;
    if (!task.is_plain) {
      for (std::int64_t j = begin; j < end; ++j) logits[j] *= static_cast<T>(task.common->scale);
    }
    LogitTerms<T, 1>::apply({task, chunk_, begin, end, logits, queries_ + h * query_step_});
    std::fill(logits + begin / kSumLanes<T> * kSumLanes<T>, logits + begin, -kInfinity<T>);
    std::fill(logits + end, logits + whole_sum_lanes<T>(end), -kInfinity<T>);
    hide(h, -kInfinity<T>);
  }

  // The hidden keys of head h, between first_ and last_, get this entry among the logits.
  void hide(std::int64_t h, T entry) {
    ElementMasks<T, 1>::hide(tasks_[h], first_, last_, logits_ + h * kChunkKeys + (first_ - chunk_), entry);
  }

  // Logits of head h become weights relative to their maximum; a hidden key's weight is -0.
  template <Unit kUnit>
  void weigh(std::int64_t h, T& maximum, T& sum) {
    const Tag<T> d;
    finish_logits(h);
    T* logits = logits_ + h * kChunkKeys;
    const std::int64_t begin = (first_ - chunk_) / kSumLanes<T> * kSumLanes<T>, end = last_ - chunk_;
    Vec<T> top = hn::Set(d, -kInfinity<T>);
    for (std::int64_t j = begin; j < end; j += kLanes<T>) top = hn::Max(top, hn::Load(d, logits + j));
    const Vec<T> unit = unit_of<kUnit, T>(tasks_[h]);
    maximum = hn::GetLane(hn::Mul(hn::MaxOfLanes(d, top), unit));
    if (maximum == -kInfinity<T>) maximum = 0;  // no key: all weights vanish
    LaneSums<T> total;
    for (std::int64_t j = begin; j < end; j += kSumLanes<T>) {
      QKV_UNROLL for (int v = 0; v < kSumVectors<T>; ++v) {
        T* at = logits + j + v * kLanes<T>;
        const Vec<T> weight = power<kUnit, T>(hn::Sub(hn::Mul(hn::Load(d, at), unit), hn::Set(d, maximum)));
        hn::Store(weight, d, at);
        total.add(v, weight);
      }
    }
    sum = total.total();
    hide(h, T(-0.0));
    if (tasks_[h].common->dropout.is_on()) drop_row(tasks_[h], chunk_, first_ - chunk_, last_ - chunk_, logits);
  }

  template <Unit kUnit>
  void write_rows(std::int64_t h, T maximum, T sum) {
    const AttentionTask& task = tasks_[h];
    const T inverse = sum == 0 ? T(0) : T(1) / sum;
    const std::int64_t end = std::min(chunk_ + kChunkKeys, task.k_len);
    T* weights = reinterpret_cast<T*>(task.weights.data);
    T* logits = reinterpret_cast<T*>(task.logits.data);
    for (std::int64_t key = chunk_; key < end; ++key) {
      const T logit = key < first_ || key >= last_ ? -kInfinity<T> : logits_[h * kChunkKeys + key - chunk_];
      if (logits != nullptr) logits[key] = logit * natural_unit_of<kUnit, T>(task);
      if (weights != nullptr) {
        const Vec<T> relative = hn::Set(Tag<T>(), logit * hn::GetLane(unit_of<kUnit, T>(task)) - maximum);
        weights[key] = hn::GetLane(power<kUnit, T>(relative)) * inverse;
      }
    }
  }

  // In blocks of keys, so that a block's values are read from memory once and then from the first-level cache.
  void add_values(T* out, std::int64_t out_step) {
    const Rows& rows = tasks_[0].value;
    const std::int64_t block = rows_at_once(rows), ahead = rows_ahead(rows, tasks_[0].common->value_dim);
    for (std::int64_t j = first_; j < last_;) {
      const KeyRows<S> values = rows_from<S>(rows, j, std::min(j + block, last_));
      fetch(rows, j + ahead, values.count, tasks_[0].common->value_dim);
      std::int64_t h = 0;
      for (; h + kValueHeads<S> <= heads_; h += kValueHeads<S>) {
        add_block<kValueHeads<S>>(values.data, values.count, h, j, out, out_step);
      }
      for (; h < heads_; ++h) add_block<1>(values.data, values.count, h, j, out, out_step);
      j += values.count;
    }
  }

  template <int kHeads>
  HWY_INLINE void add_block(const S* values, std::int64_t keys, std::int64_t h, std::int64_t j, T* out,
                            std::int64_t out_step) {
    const T* weights = logits_ + h * kChunkKeys + (j - chunk_);
    if (ElementMasks<T, 1>::is_on(tasks_[0])) {
      add_sizes<kHeads, true>(values, keys, weights, out + h * out_step, out_step);
    } else {
      add_sizes<kHeads, false>(values, keys, weights, out + h * out_step, out_step);
    }
  }

  template <int kHeads, bool kSkip>
  HWY_INLINE void add_sizes(const S* values, std::int64_t keys, const T* weights, T* out, std::int64_t out_step) {
    const std::int64_t step = tasks_[0].value.step, size = tasks_[0].common->value_dim;
    constexpr int kVectors = kValueVectors<S>;
    std::int64_t e = 0;
    for (; e + kVectors * kLanes<T> <= size; e += kVectors * kLanes<T>) {
      sum_values<kHeads, kVectors, kSkip>(values + e, step, keys, weights, out + e, out_step);
    }
    for (; e + kVectors / 2 * kLanes<T> <= size; e += kVectors / 2 * kLanes<T>) {
      sum_values<kHeads, kVectors / 2, kSkip>(values + e, step, keys, weights, out + e, out_step);
    }
    for (; e + kLanes<T> <= size; e += kLanes<T>) {
      sum_values<kHeads, 1, kSkip>(values + e, step, keys, weights, out + e, out_step);
    }
    if (e == size) return;
    const SomeLanes<T> rest{size - e};
    sum_values<kHeads, 1, kSkip>(values + e, step, keys, weights, out + e, out_step, rest);
  }

  // Rows that the first cache holds beside each other, half of it: of those that lie pages apart, as where the heads of
  // a key lie side by side, all share the few lines that it has for one place within a page.
  static std::int64_t held_rows(const Rows& rows) {
    constexpr std::int64_t kHeld = 16 * 1024 / sizeof(S);
    return kHeld / std::max<std::int64_t>(std::abs(rows.step), 1);
  }

  // Values whose products with all heads are taken before the next are read.
  static std::int64_t rows_at_once(const Rows& rows) { return std::clamp<std::int64_t>(held_rows(rows), kKeyTile, 16); }

  // How far ahead rows are asked for: some kilobytes, because a processor fetches no further than its queues and the
  // page reach. Beyond all rows where the products of many heads take longer than memory that is read in order.
  std::int64_t rows_ahead(const Rows& rows, std::int64_t size) const {
    constexpr std::int64_t kAhead = 10 * 1024 / sizeof(S), kMostHeads = sizeof(S);
    if (heads_ > kMostHeads && rows.step == size) return tasks_[0].k_len;
    return std::max(rows_at_once(rows), std::min(kAhead / size, held_rows(rows)));
  }

  HWY_INLINE void fetch(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t size) const {
    fetch_rows<S>(rows, first, std::min(first + count, tasks_[0].k_len), size);
  }

  // Whether there are pairs of bf16, and a target that multiplies them.
  static constexpr bool kMayPair = HWY_TARGET == HWY_AVX3 && std::is_same_v<S, BFloat16>;

  const AttentionTask* tasks_;
  const std::int64_t heads_, chunk_;
  const bool pairs_ = kMayPair && uses_bf16_pairs();
  bool has_ordinary_queries_ = false;
  std::int64_t first_, last_, query_step_, word_step_;
  T* queries_;  // [heads][query_step], with the sign of the scale
  T* words_;    // [heads][word_step], the same of bf16 in pairs
  T* logits_;   // [heads][kChunkKeys], then weights
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
