// A row of logits is as long as the vocabulary: thousands of numbers, read once per token.
#include "ops/rowwise/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rowwise/vocabulary_row.cc"
#include "core/mathematics.h"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/exp2-inl.h"
#include "simd/lane_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// The sum of exp(row - maximum), which is finite.
double sum_of_powers(const float* row, std::int64_t count, float maximum) {
  const Tag<float> d;
  const Vec<float> top = hn::Set(d, maximum), log2_e = hn::Set(d, 1.44269504088896341f);
  LaneSums<float> sums;
  for_each_vector<float>(count, [&](int v, std::int64_t i, auto lanes) HWY_ATTR {
    const Vec<float> below = lanes.keep(hn::Sub(lanes.load(row + i), top), hn::Zero(d));
    sums.add(v, lanes.keep(exp2<float>(hn::Mul(below, log2_e)), hn::Zero(d)));
  });
  return static_cast<double>(sums.total());
}

// The first i >= begin, a multiple of the vector from there on, at which one of a vector's numbers exceeds `bar`;
// `count` if none does. The last, partial vector is always reported.
std::int64_t find_above(const float* row, std::int64_t begin, std::int64_t count, float bar) {
  const Tag<float> d;
  const Vec<float> limit = hn::Set(d, bar);
  for (; begin + kLanes<float> <= count; begin += kLanes<float>) {
    if (!hn::AllFalse(d, hn::Gt(hn::LoadU(d, row + begin), limit))) return begin;
  }
  return begin;
}

std::int64_t lanes_of_row() { return kLanes<float>; }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(sum_of_powers);
HWY_EXPORT(find_above);
HWY_EXPORT(lanes_of_row);

}  // namespace

double log_sum_exp(std::span<const float> row) {
  TokenLogit best;
  if (largest_logits(row, {&best, 1}) == 0) {
    const bool hidden = std::all_of(row.begin(), row.end(), [](float x) { return x == x; });
    return hidden ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (std::isinf(best.logit)) return std::numeric_limits<double>::infinity();
  const double sum = HWY_DYNAMIC_DISPATCH(sum_of_powers)(row.data(), static_cast<std::int64_t>(row.size()), best.logit);
  return static_cast<double>(best.logit) + log(sum);
}

std::size_t largest_logits(std::span<const float> row, std::span<TokenLogit> best) {
  ensure_target();
  const std::int64_t lanes = HWY_DYNAMIC_DISPATCH(lanes_of_row)(), count = static_cast<std::int64_t>(row.size());
  const auto find = [&](std::int64_t begin, float bar) {
    return HWY_DYNAMIC_DISPATCH(find_above)(row.data(), begin, count, bar);
  };
  std::size_t found = 0;
  float bar = -std::numeric_limits<float>::infinity();
  for (std::int64_t at = find(0, bar); at < count; at = find(at, bar)) {
    const std::int64_t end = std::min(at + lanes, count);
    for (; at < end; ++at) {
      const TokenLogit next{row[static_cast<std::size_t>(at)], static_cast<std::int32_t>(at)};
      if (!(next.logit > bar)) continue;
      std::size_t rank = found < best.size() ? found++ : found - 1;
      for (; rank > 0 && best[rank - 1].logit < next.logit; --rank) best[rank] = best[rank - 1];
      best[rank] = next;
      if (found == best.size()) bar = best.back().logit;
    }
  }
  return found;
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
