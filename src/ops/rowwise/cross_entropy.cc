// Three passes over a row: maximum and sum of the logits; exponentials and their sum; gradients.
#include "ops/rowwise/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rowwise/cross_entropy.cc"
#include "core/mathematics.h"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/exp2-inl.h"
#include "simd/lane_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T>
struct RowSums {
  T maximum;
  T sum;
};

// 1.
template <class T>
HWY_INLINE RowSums<T> sum_logits(const T* row, std::int64_t size) {
  const Tag<T> d;
  const Vec<T> first = hn::Set(d, row[0]);
  Vec<T> maxima = first;
  LaneSums<T> sums;
  for_each_vector<T>(size, [&](int v, std::int64_t i, auto lanes) HWY_ATTR {
    const Vec<T> value = lanes.load(row + i);
    maxima = hn::Max(maxima, lanes.keep(value, first));
    sums.add(v, value);
  });
  return {.maximum = hn::GetLane(hn::MaxOfLanes(d, maxima)), .sum = sums.total()};
}

// 2. row = e^(row - maximum); returns the sum.
template <class T>
HWY_INLINE T exponentials(T* row, std::int64_t size, T maximum) {
  const Tag<T> d;
  const Vec<T> log2_e = hn::Set(d, T(1.4426950408889634074)), most = hn::Set(d, maximum);
  LaneSums<T> sums;
  for_each_vector<T>(size, [&](int v, std::int64_t i, auto lanes) HWY_ATTR {
    const Vec<T> below = lanes.keep(hn::Sub(lanes.load(row + i), most), hn::Zero(d));
    const Vec<T> power = exp2<T>(hn::Mul(below, log2_e));
    lanes.store(power, row + i);
    sums.add(v, lanes.keep(power, hn::Zero(d)));
  });
  return sums.total();
}

// 3. row = row * factor - constant
template <class T>
HWY_INLINE void scale_row(T* row, std::int64_t size, T factor, T constant) {
  const Tag<T> d;
  for_each_vector<T>(size, [&](int, std::int64_t i, auto lanes) HWY_ATTR {
    lanes.store(hn::MulSub(lanes.load(row + i), hn::Set(d, factor), hn::Set(d, constant)), row + i);
  });
}

template <class T>
void cross_entropy(const CrossEntropyRows<T>& rows) {
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    T* row = rows.logits + r * rows.stride;
    const std::int64_t target = rows.targets[r];
    rows.loss[r] = rows.nll[r] = 0;
    if (target < 0) {
      for (std::int64_t c = 0; c < rows.classes && rows.gradients; ++c) row[c] = 0;
      continue;
    }
    const T target_logit = row[target];
    std::int64_t classes = rows.classes;
    if (rows.excluded >= 0) {
      // Stands for the target's in the first pass, and for none in the second.
      row[rows.excluded] = target_logit;
      --classes;
    }
    RowSums<T> sums = sum_logits(row, rows.classes);
    if (rows.excluded >= 0) sums.sum -= target_logit;
    T total = exponentials(row, rows.classes, sums.maximum);
    if (rows.excluded >= 0) {
      total -= row[rows.excluded];
      row[rows.excluded] = 0;
    }
    const double log_sum_exp = static_cast<double>(sums.maximum) + log(static_cast<double>(total));
    const double mean = static_cast<double>(sums.sum) / static_cast<double>(classes);
    rows.nll[r] = log_sum_exp - static_cast<double>(target_logit);
    rows.loss[r] = (1 - rows.smoothing) * rows.nll[r] + rows.smoothing * (log_sum_exp - mean);
    if (!rows.gradients) continue;
    const double even = rows.scale * rows.smoothing / static_cast<double>(classes);
    scale_row(row, rows.classes, static_cast<T>(rows.scale / static_cast<double>(total)), static_cast<T>(even));
    row[target] -= static_cast<T>(rows.scale * (1 - rows.smoothing));
    if (rows.excluded >= 0) row[rows.excluded] = 0;
  }
}

void cross_entropy_f32(const CrossEntropyRows<float>& rows) { cross_entropy(rows); }
void cross_entropy_f64(const CrossEntropyRows<double>& rows) { cross_entropy(rows); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(cross_entropy_f32);
HWY_EXPORT(cross_entropy_f64);

}  // namespace

void cross_entropy_rows(const CrossEntropyRows<float>& rows) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(cross_entropy_f32)(rows);
}

void cross_entropy_rows(const CrossEntropyRows<double>& rows) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(cross_entropy_f64)(rows);
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
