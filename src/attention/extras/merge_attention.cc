// Joining partial results by their log-sum-exp.
#include <algorithm>
#include <limits>

#include "core/float_environment.h"
#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "qkv/attention.h"

namespace qkv {
namespace {

template <class T>
void merge_rows(const MutableTensorView& out, const MutableTensorView& log_sum_exp, const TensorView& other_out,
                const TensorView& other_log_sum_exp) {
  const std::int64_t size = out.size(-1);
  Dims row = log_sum_exp.shape();
  for (int i = 0; i < row.size(); ++i) row[i] = 0;
  StopTurns turns;
  for (std::int64_t left = log_sum_exp.element_count(); left > 0; --left) {
    turns.next();
    T& lse = log_sum_exp.at<T>(row);
    const T other_lse = other_log_sum_exp.at<T>(row);
    if (other_lse != -std::numeric_limits<T>::infinity()) {
      const T most = std::max(lse, other_lse);
      const T weight = exp(lse - most), other_weight = exp(other_lse - most);
      const T sum = weight + other_weight;
      Dims element = row;
      element.push_back(0);
      T* to = &out.at<T>(element);
      const T* from = &other_out.at<T>(element);
      for (std::int64_t e = 0; e < size; ++e) {
        T& value = to[e * out.stride(-1)];
        value = (weight * value + other_weight * from[e * other_out.stride(-1)]) / sum;
      }
      lse = most + log(sum);
    }
    for (int i = row.size() - 1; i >= 0 && ++row[i] == log_sum_exp.size(i); --i) row[i] = 0;
  }
}

}  // namespace

void merge_attention(const MutableTensorView& out, const MutableTensorView& log_sum_exp, const TensorView& other_out,
                     const TensorView& other_log_sum_exp) {
  Dims rows = out.shape();
  const bool ranked = !rows.empty();
  const Dims lse_shape = ranked ? Dims(std::span(rows.begin(), static_cast<std::size_t>(rows.size() - 1))) : rows;
  if (!ranked || other_out.shape() != rows || log_sum_exp.shape() != lse_shape ||
      other_log_sum_exp.shape() != lse_shape) {
    refuse("merge_attention", "out {} and {} must be equal, log_sum_exp {} and {} the same without the last dimension",
           to_string(rows), to_string(other_out.shape()), to_string(log_sum_exp.shape()),
           to_string(other_log_sum_exp.shape()));
  }
  const Dtype dtype = out.dtype();
  if ((dtype != Dtype::f32 && dtype != Dtype::f64) || log_sum_exp.dtype() != dtype || other_out.dtype() != dtype ||
      other_log_sum_exp.dtype() != dtype) {
    refuse("merge_attention", "all four must be f32, or all f64");
  }
  if (out.element_count() == 0) return;
  const FloatEnvironment environment;
  if (dtype == Dtype::f64) {
    merge_rows<double>(out, log_sum_exp, other_out, other_log_sum_exp);
  } else {
    merge_rows<float>(out, log_sum_exp, other_out, other_log_sum_exp);
  }
}

}  // namespace qkv
