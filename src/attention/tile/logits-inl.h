// The logits of a block of queries against a tile of keys: scores of every kind, their scale, then the terms of
// logit_terms-inl.h.
// Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_LOGITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_LOGITS_INL_H_
#undef QKV_ATTENTION_TILE_LOGITS_INL_H_
#else
#define QKV_ATTENTION_TILE_LOGITS_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "attention/tile/attention_task.h"
#include "attention/tile/exact_product-inl.h"
#include "attention/tile/logit_terms-inl.h"
#include "attention/tile/relative_rows-inl.h"
#include "attention/tile/softmax_state-inl.h"
#include "simd/rows-inl.h"
#include "simd/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline bool is_additive(const AttentionTask& task) { return is_additive(task.common->score); }

// What BlockLogits gives, times this, is in powers of 2 (Unit::base2; the scale's sign is in the queries) or natural.
template <Unit kUnit, class T>
HWY_INLINE Vec<T> unit_of(const AttentionTask& task) {
  return hn::Set(Tag<T>(), kUnit == Unit::base2 ? static_cast<T>(std::abs(task.common->scale) * kLog2E) : T(1));
}

// The same for natural logits.
template <Unit kUnit, class T>
T natural_unit_of(const AttentionTask& task) {
  return kUnit == Unit::base2 ? static_cast<T>(std::abs(task.common->scale)) : T(1);
}

// Sizes in elements of T.
template <class T, int kVectors, class Product = ExactProduct>
struct LogitScratch {
  explicit LogitScratch(const AttentionTask& task)
      : queries(Product::packed_rows(task, task.common->query_dim) * kColumns),
        projected(Product::packed_rows(task, is_additive(task) ? task.common->hidden : task.common->key_dim) *
                  kColumns),
        key_rows(round_up(kTileRows * task.common->key_dim)),
        key_hidden(is_additive(task) ? round_up(kTileRows * task.common->hidden) : 0),
        relative(RelativeRows<T, kVectors>::scratch_size(task)),
        products(Product::kGroupKeys * kColumns) {
    if (!is_additive(task) && task.common->score != Score::Kind::bilinear) projected = 0;
  }

  static std::int64_t round_up(std::int64_t count) { return (count + 15) / 16 * 16; }
  std::int64_t total() const { return queries + projected + key_rows + key_hidden + relative + products; }

  std::int64_t queries, projected, key_rows, key_hidden, relative, products;

 private:
  static constexpr std::int64_t kColumns = kVectors * kLanes<T>;
};

template <class T, int kVectors, class Product = ExactProduct>
class BlockLogits {
 public:
  static constexpr int kColumns = kVectors * kLanes<T>;
  using Tile = Vec<T>[kTileRows][kVectors];

  explicit BlockLogits(Product product = {}) : product_(product) {}

  // Queries begin <= i < begin + count: rows of `queries` from 0 on.
  void prepare(const AttentionTask& task, std::int64_t begin, std::int64_t count, const Rows& queries,
               ScratchRoom& scratch) {
    const LogitScratch<T, kVectors, Product> sizes(task);
    begin_ = begin;
    count_ = count;
    right_ = scratch.take<T>(sizes.queries);
    T* projected = scratch.take<T>(sizes.projected);
    key_rows_ = scratch.take<T>(sizes.key_rows);
    key_hidden_ = scratch.take<T>(sizes.key_hidden);
    T* relative = scratch.take<T>(sizes.relative);
    products_ = scratch.take<T>(sizes.products);
    multiplied_ = -1;
    biases_alone_ = !is_additive(task) && LogitTerms<T, kVectors>::are_biases_alone(task);

    transpose_queries(queries, task.common->query_dim);
    relative_.prepare(task, begin, relative);
    if (relative_.is_on()) relative_.multiply(right_, task.common->query_dim);
    if (is_additive(task)) {
      multiply_rows(task.common->hidden, reinterpret_cast<const T*>(task.common->score_w_query.data),
                    task.common->score_w_query.step, 1, task.common->query_dim, projected);
      right_ = projected;
      return;
    }
    std::int64_t inner = task.common->query_dim;
    if (task.common->score == Score::Kind::bilinear) {  // q^T W k = (W^T q) . k
      multiply_rows(task.common->key_dim, reinterpret_cast<const T*>(task.common->score_w_query.data), 1,
                    task.common->score_w_query.step, task.common->query_dim, projected);
      right_ = projected;
      inner = task.common->key_dim;
    }
    if (task.is_plain && task.common->scale < 0) {
      for (T* at = right_; at < right_ + inner * kColumns; at += kLanes<T>) {
        hn::Store(hn::Neg(hn::Load(Tag<T>(), at)), Tag<T>(), at);
      }
    }
    has_ordinary_queries_ = product_.template pack<kVectors>(right_, inner);
  }

  // Logits of keys key ... key + kTileRows - 1. Keys beyond the last one are anything finite.
  template <Unit kUnit>
  HWY_INLINE void compute(const AttentionTask& task, std::int64_t key, Tile& tile) {
    if constexpr (kUnit == Unit::base2) {
      multiply_keys(task, key, /*first=*/0, tile);
    } else if (HWY_LIKELY(biases_alone_)) {
      multiply_scaled(task, key, tile);
      BiasArrays<T, kVectors>::add(task, begin_, count_, key, tile);
    } else {
      HWY_ALIGN T logits[kTileRows * kColumns];
      compute_natural(task, key, logits);
      QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
        QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
          tile[r][c] = hn::Load(Tag<T>(), logits + (r * kVectors + c) * kLanes<T>);
        }
      }
    }
  }

  // The same for bare products, of kCount vectors of queries from vector `first` on.
  template <int kCount>
  HWY_INLINE void compute_some(const AttentionTask& task, std::int64_t key, int first,
                               Vec<T> (&tile)[kTileRows][kCount]) {
    multiply_keys(task, key, first, tile);
  }

  // What keys, or their hidden layer, are multiplied with: [key_dim or hidden][kColumns].
  const T* projected_queries() const { return right_; }

  // The hidden layer of kTileRows keys from `key` on, of additive scores, rows `step` apart.
  const T* hidden_of_keys(const AttentionTask& task, std::int64_t key, std::int64_t& step) const {
    return product_.hidden_rows(task, key, key_rows_, key_hidden_, step);
  }

  // gradients *= d(capped) / d(uncapped), for the tile of keys that begins at `key`.
  void multiply_cap_slope(const AttentionTask& task, std::int64_t key, T* gradients) {
    HWY_ALIGN T logits[kTileRows * kColumns];
    compute_scores(task, key, logits);
    SoftCap<T, kVectors>::multiply_slope(task, logits, gradients);
  }

 private:
  // right_ = queries^T [query_dim][kColumns]; lanes without a query are 0.
  HWY_NOINLINE void transpose_queries(const Rows& rows, std::int64_t size) {
    with_type<T>(rows.type, [&]<class S>(S) {
      const S* from = reinterpret_cast<const S*>(rows.data);
      for (std::int64_t first = 0; first < kColumns; first += kLanes<T>) {
        rows_to_lanes(from + first * rows.step, rows.step, count_ - first, size, right_ + first, kColumns);
      }
    });
  }

  // to[row][lane] = sum over k < inner of left[row][k] * right_[k][lane]
  void multiply_rows(std::int64_t rows, const T* left, std::int64_t row_step, std::int64_t step, std::int64_t inner,
                     T* to) {
    std::int64_t row = 0;
    for (; row + kTileRows <= rows; row += kTileRows) multiply_some<kTileRows>(row, left, row_step, step, inner, to);
    for (; row < rows; ++row) multiply_some<1>(row, left, row_step, step, inner, to);
  }

  template <int kRows>
  void multiply_some(std::int64_t row, const T* left, std::int64_t row_step, std::int64_t step, std::int64_t inner,
                     T* to) {
    const Tag<T> d;
    Vec<T> sum[kRows][kVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::Zero(d);
    }
    multiply_tile<kRows, kVectors, T>(left + row * row_step, row_step, step, right_, kColumns, inner, sum);
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
        hn::Store(sum[r][c], d, to + ((row + r) * kVectors + c) * kLanes<T>);
      }
    }
  }

  HWY_NOINLINE void compute_natural(const AttentionTask& task, std::int64_t key, T* logits) {
    compute_scores(task, key, logits);
    LogitTerms<T, kVectors>::apply({task, begin_, count_, key, logits}, relative_);
  }

  // scale * score
  void compute_scores(const AttentionTask& task, std::int64_t key, T* logits) {
    if constexpr (Product::kProjectsKeys) {
      if (is_additive(task)) return additive_scores(task, key, logits);
    }
    Tile tile;
    multiply_scaled(task, key, tile);
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
        hn::Store(tile[r][c], Tag<T>(), logits + (r * kVectors + c) * kLanes<T>);
      }
    }
  }

  // The same in registers, of products.
  HWY_INLINE void multiply_scaled(const AttentionTask& task, std::int64_t key, Tile& tile) {
    multiply_keys(task, key, /*first=*/0, tile);
    const Vec<T> scale = hn::Set(Tag<T>(), static_cast<T>(task.common->scale));
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) tile[r][c] = hn::Mul(tile[r][c], scale);
    }
  }

  template <int kCount>
  HWY_INLINE void multiply_keys(const AttentionTask& task, std::int64_t key, int first,
                                Vec<T> (&tile)[kTileRows][kCount]) {
    if constexpr (Product::kGroupKeys > 0) {
      const std::int64_t row = key % Product::kGroupKeys, group = key - row;
      if (group != multiplied_) {
        product_.template multiply_keys<kVectors>(task, group, right_, has_ordinary_queries_, products_);
      }
      multiplied_ = group;
      const T* from = products_ + row * kColumns + first * kLanes<T>;
      QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
        QKV_UNROLL for (int c = 0; c < kCount; ++c) {
          tile[r][c] = hn::Load(Tag<T>(), from + r * kColumns + c * kLanes<T>);
        }
      }
    } else {
      std::int64_t step;
      const T* keys = product_.key_rows(task, key, key_rows_, step);
      QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
        QKV_UNROLL for (int c = 0; c < kCount; ++c) tile[r][c] = hn::Zero(Tag<T>());
      }
      const T* right = right_ + first * kLanes<T>;
      const std::int64_t words = Product::words(task.common->key_dim);
      if constexpr (Product::kIsCareful) {
        if (HWY_UNLIKELY(!has_ordinary_queries_ || !product_.has_ordinary_keys(key))) {
          return multiply_carefully(keys, step, right, words, tile);
        }
      }
      multiply_tile<kTileRows, kCount, T, typename Product::Step>(keys, step, 1, right, kColumns, words, tile);
    }
  }

  template <int kCount>
  static HWY_NOINLINE void multiply_carefully(const T* keys, std::int64_t step, const T* right, std::int64_t words,
                                              Vec<T> (&tile)[kTileRows][kCount]) {
    multiply_tile<kTileRows, kCount, T, typename Product::CarefulStep>(keys, step, 1, right, kColumns, words, tile);
  }

  // scale * v . tanh(W_q q + W_k k)
  void additive_scores(const AttentionTask& task, std::int64_t key, T* logits) {
    const Tag<T> d;
    std::int64_t step;
    const T* of_keys = hidden_of_keys(task, key, step);
    const T* v = reinterpret_cast<const T*>(task.common->score_v);
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        Vec<T> sum = hn::Zero(d);
        for (std::int64_t h = 0; h < task.common->hidden; ++h) {
          const Vec<T> of_query = hn::Load(d, right_ + (h * kVectors + c) * kLanes<T>);
          const Vec<T> of_key = hn::Set(d, of_keys[r * step + h]);
          sum = hn::MulAdd(tanh<T>(hn::Add(of_query, of_key)), hn::Set(d, v[h]), sum);
        }
        const Vec<T> logit = hn::Mul(sum, hn::Set(d, static_cast<T>(task.common->scale)));
        hn::Store(logit, d, logits + (r * kVectors + c) * kLanes<T>);
      }
    }
  }

  Product product_;
  std::int64_t begin_ = 0, count_ = 0;
  T* right_ = nullptr;       // [key_dim or hidden][kColumns]: what keys are multiplied with
  T* key_rows_ = nullptr;    // [kTileRows][key_dim]
  T* key_hidden_ = nullptr;  // [kTileRows][hidden]
  T* products_ = nullptr;    // [kGroupKeys][kColumns], of the group that begins with key multiplied_; -1: none
  std::int64_t multiplied_ = -1;
  bool biases_alone_ = false;
  bool has_ordinary_queries_ = true;  // those of Product::pack()
  RelativeRows<T, kVectors> relative_;
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
