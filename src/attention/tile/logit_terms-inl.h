// The terms that follow scores and scale, in the order in which they apply. Each is a class
//   X::is_on(task)                   false: it changes nothing (choose_kernel() asks the same of all);
//   X::apply(tile), X::apply(row)    changes the logits of a block of queries, or of a single one.
// Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_
#undef QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_
#else
#define QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "attention/tile/bias_arrays-inl.h"
#include "attention/tile/logit_tile-inl.h"
#include "attention/tile/relative_tables-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Soft capping: cap * tanh(logit / cap). Source: Gemma Team, "Gemma 2" (2024), section 2.

// Highway's makes integers of its argument, which of NaN is undefined in portable code.
template <class T>
HWY_INLINE Vec<T> tanh(Vec<T> x) {
  const auto is_number = hn::Eq(x, x);
  return hn::IfThenElse(is_number, hn::Tanh(Tag<T>(), hn::IfThenElseZero(is_number, x)), x);
}

template <class T, int kVectors>
struct SoftCap {
  static bool is_on(const AttentionTask& task) { return task.common->soft_cap != 0; }

  static void apply(const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    const T cap = static_cast<T>(tile.task.common->soft_cap);
    for (T* at = tile.at; at < tile.at + kTileRows * tile.kColumns; at += kLanes<T>) {
      const Vec<T> ratio = hn::Div(hn::Load(d, at), hn::Set(d, cap));
      hn::Store(hn::Mul(tanh<T>(ratio), hn::Set(d, cap)), d, at);
    }
  }

  // Of whole vectors: what is outside of the row is nobody's.
  static void apply(const LogitRow<T>& row) {
    const Tag<T> d;
    const Vec<T> cap = hn::Set(d, static_cast<T>(row.task.common->soft_cap));
    for (std::int64_t j = row.first / kLanes<T> * kLanes<T>; j < row.last; j += kLanes<T>) {
      hn::Store(hn::Mul(tanh<T>(hn::Div(hn::Load(d, row.at + j), cap)), cap), d, row.at + j);
    }
  }

  // gradients *= 1 - tanh^2(logits / cap), of logits before the cap. A gradient of 0 stays so: the slope of a hidden
  // key may be NaN.
  static void multiply_slope(const AttentionTask& task, const T* logits, T* gradients) {
    const Tag<T> d;
    const Vec<T> cap = hn::Set(d, static_cast<T>(task.common->soft_cap));
    for (int at = 0; at < kTileRows * kVectors * kLanes<T>; at += kLanes<T>) {
      const Vec<T> ratio = tanh<T>(hn::Div(hn::Load(d, logits + at), cap));
      const Vec<T> slope = hn::NegMulAdd(ratio, ratio, hn::Set(d, T(1)));
      const Vec<T> gradient = hn::Load(d, gradients + at);
      hn::Store(hn::IfThenZeroElse(hn::Eq(gradient, hn::Zero(d)), hn::Mul(gradient, slope)), d, gradients + at);
    }
  }
};

// ALiBi: minus a slope times the distance of query and key. Source: Press et al., "Train short, test long" (2021).
template <class T, int kVectors>
struct Alibi {
  static bool is_on(const AttentionTask& task) { return task.alibi_slope != 0; }

  static void apply(const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> index;
    using Index = hwy::MakeSigned<T>;
    const Vec<T> slope = hn::Set(d, static_cast<T>(-tile.task.alibi_slope));
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        // Position of the first lane relative to the key; both lie within 2^31 of each other.
        const std::int64_t distance = tile.begin + tile.task.offset + c * kLanes<T> - (tile.key + r);
        const auto distances = hn::Abs(hn::Iota(index, static_cast<Index>(distance)));
        T* at = tile.at + (r * kVectors + c) * kLanes<T>;
        hn::Store(hn::MulAdd(hn::ConvertTo(d, distances), slope, hn::Load(d, at)), d, at);
      }
    }
  }

  static void apply(const LogitRow<T>& row) {
    for (std::int64_t j = row.first; j < row.last; ++j) {
      row.at[j] -= static_cast<T>(row.task.alibi_slope) * static_cast<T>(std::abs(row.task.offset - (row.chunk + j)));
    }
  }
};

// A function of the user's that changes logits.
template <class T, int kVectors>
struct LogitFunctions {
  static bool is_on(const AttentionTask& task) { return task.common->logit_function != nullptr; }

  static void apply(const LogitTile<T, kVectors>& tile) {
    const std::int64_t keys = std::min<std::int64_t>(kTileRows, tile.task.k_len - tile.key);
    tile.task.common->logit_function->change_tile(PairTile<T>{.first = pair_of(tile.task, tile.begin, tile.key),
                                                              .queries = static_cast<std::int32_t>(tile.count),
                                                              .keys = static_cast<std::int32_t>(keys),
                                                              .query_step = 1,
                                                              .key_step = tile.kColumns,
                                                              .at = tile.at});
  }

  static void apply(const LogitRow<T>& row) {
    row.task.common->logit_function->change_tile(PairTile<T>{.first = pair_of(row.task, 0, row.chunk + row.first),
                                                             .queries = 1,
                                                             .keys = static_cast<std::int32_t>(row.last - row.first),
                                                             .query_step = kChunkKeys,
                                                             .key_step = 1,
                                                             .at = row.at + row.first});
  }
};

template <class T, int kVectors>
struct LogitTerms {
  static void apply(const LogitTile<T, kVectors>& tile, const RelativeRows<T, kVectors>& relative) {
    each(tile.task, [&]<class Term>(Term) {
      if constexpr (requires { Term::apply(tile, relative); }) {
        Term::apply(tile, relative);
      } else {
        Term::apply(tile);
      }
    });
  }

  static void apply(const LogitRow<T>& row) {
    each(row.task, [&]<class Term>(Term) { Term::apply(row); });
  }

  // Whether biases in arrays are all that changes the logits.
  static bool are_biases_alone(const AttentionTask& task) {
    bool alone = false, others = false;
    each(task, [&]<class Term>(Term) { (std::is_same_v<Term, BiasArrays<T, kVectors>> ? alone : others) = true; });
    return alone && !others;
  }

 private:
  template <class Visit>
  static HWY_INLINE void each(const AttentionTask& task, const Visit& visit) {
    visit_terms<SoftCap<T, kVectors>, BiasArrays<T, kVectors>, Alibi<T, kVectors>, RelativeTables<T, kVectors>,
                LogitFunctions<T, kVectors>>(task, visit);
  }

  template <class... Terms, class Visit>
  static HWY_INLINE void visit_terms(const AttentionTask& task, const Visit& visit) {
    ((Terms::is_on(task) ? visit(Terms()) : void()), ...);
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
