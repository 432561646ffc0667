// What the double backward makes of a tile of the backward pass: backward_call.h, for a block of queries.
// Included once per CPU target.

#if defined(QKV_ATTENTION_BACKWARD_DOUBLE_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_BACKWARD_DOUBLE_BACKWARD_INL_H_
#undef QKV_ATTENTION_BACKWARD_DOUBLE_BACKWARD_INL_H_
#else
#define QKV_ATTENTION_BACKWARD_DOUBLE_BACKWARD_INL_H_
#endif

#include <cstring>

#include "attention/backward/backward_kernel.h"
#include "attention/tangent/tangent_logits-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
class DoubleBackward {
 public:
  static constexpr int kColumns = kVectors * kLanes<T>;
  using Tile = Vec<T>[kTileRows][kVectors];

  // In elements of T.
  static std::int64_t scratch_size(const BackwardTask& backward) {
    if (!backward.is_double) return 0;
    const AttentionTask& task = backward.forward;
    return kColumns * whole_vectors<T>(task.common->query_dim) + kTileRows * whole_vectors<T>(task.common->value_dim) +
           TangentLogits<T, kVectors>::scratch_size(task);
  }

  explicit DoubleBackward(const BackwardTask& backward)
      : backward_(backward), task_(backward.forward), logits_(task_, backward.tangents) {}

  bool is_on() const { return backward_.is_double; }
  const TaskTangents& tangents() const { return backward_.tangents; }
  // Of the queries, [kColumns][query_dim in whole vectors]; rows without keys are 0.
  const T* query_rows() const { return query_rows_; }

  // To call first, then read_row() for each query that has keys: whether its tangent is finite.
  void prepare(std::int64_t begin, std::int64_t count, ScratchRoom& scratch) {
    begin_ = begin;
    query_rows_ = scratch.take<T>(kColumns * whole_vectors<T>(task_.common->query_dim));
    value_rows_ = scratch.take<T>(kTileRows * whole_vectors<T>(task_.common->value_dim));
    std::memset(query_rows_, 0, sizeof(T) * kColumns * whole_vectors<T>(task_.common->query_dim));
    for (int i = 0; i < kColumns; ++i) log_sum_exp_tangent_[i] = delta_[i] = factor_[i] = 0;
    logits_.prepare(begin, count, scratch);
  }

  bool read_row(std::int64_t i, const T* grad_out) {
    const std::int64_t query = begin_ + i;
    log_sum_exp_tangent_[i] = number(backward_.log_sum_exp_tangent, query);
    factor_[i] = 1 / number(backward_.weight_sum, query);
    delta_[i] = dot(grad_out, row(backward_.out_tangent, query), task_.common->value_dim);
    if (tangents().query.data == nullptr) return true;
    T* to = query_rows_ + i * whole_vectors<T>(task_.common->query_dim);
    std::memcpy(to, row(tangents().query, query), sizeof(T) * task_.common->query_dim);
    return is_finite_row(to, task_.common->query_dim);
  }

  // Of the keys from `key` on, tiles [kTileRows][column]: on entry weights P and gradients P B; then weights P A,
  // gradients P (C + A B) and slopes P B. grad_out [value_dim][column].
  HWY_NOINLINE void differentiate(std::int64_t key, const T* grad_out, T* weights, T* gradients, T* slopes) {
    const Tag<T> d;
    Tile a, c;
    set_below(log_sum_exp_tangent_, a);
    logits_.add(key, a);
    set_below(delta_, c);
    if (tangents().value.data != nullptr) {
      std::int64_t step;
      const T* values = tile_rows<T>(tangents().value, key, task_.k_len, task_.common->value_dim, value_rows_, step);
      multiply_tile<kTileRows, kVectors, T>(values, step, 1, grad_out, kColumns, task_.common->value_dim, c);
    }
    for (int r = 0; r < kTileRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        const std::int64_t at = (r * kVectors + v) * kLanes<T>;
        const Vec<T> factor = hn::Load(d, factor_ + v * kLanes<T>);
        const Vec<T> weight = hn::Mul(hn::Load(d, weights + at), factor);
        const Vec<T> slope = hn::Mul(hn::Load(d, gradients + at), factor);
        hn::Store(slope, d, slopes + at);
        hn::Store(hn::MulAdd(a[r][v], slope, hn::Mul(weight, c[r][v])), d, gradients + at);
        // Adding 0 makes -0, the mark of a hidden key, of none that is seen.
        hn::Store(hn::MulAdd(weight, a[r][v], hn::Zero(d)), d, weights + at);
      }
    }
  }

 private:
  static const T* row(const Rows& rows, std::int64_t query) {
    return reinterpret_cast<const T*>(rows.data) + query * rows.step;
  }

  static T number(const OutputRows& rows, std::int64_t query) {
    return reinterpret_cast<const T*>(rows.data)[query * rows.step];
  }

  static HWY_INLINE void set_below(const T* numbers, Tile& tile) {
    const Tag<T> d;
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      const Vec<T> below = hn::Neg(hn::Load(d, numbers + c * kLanes<T>));
      QKV_UNROLL for (int r = 0; r < kTileRows; ++r) tile[r][c] = below;
    }
  }

  const BackwardTask& backward_;
  const AttentionTask& task_;
  TangentLogits<T, kVectors> logits_;
  std::int64_t begin_ = 0;
  HWY_ALIGN T log_sum_exp_tangent_[kColumns], delta_[kColumns];  // delta: rowsum(grad_out * tangent of out)
  HWY_ALIGN T factor_[kColumns];                                 // that makes weights sum to 1
  T* query_rows_ = nullptr;
  T* value_rows_ = nullptr;  // [kTileRows][value_dim]
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
