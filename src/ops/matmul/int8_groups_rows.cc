// Rounds the left operand of matmul for int8 weights in groups, compiled once per CPU target.
#include "ops/matmul/int8_groups_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/int8_groups_rows.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/matmul/int8_groups-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Numbers of one group from 0 to kMostOfRow, what stands for 0, and the unit.
struct GroupUnits {
  float inverse, zero, unit;
};

HWY_INLINE GroupUnits group_units(const float* x) {
  const Tag<float> d;
  Vec<float> least = hn::Zero(d), most = hn::Zero(d), spoilt = hn::Zero(d);
  for (std::int64_t i = 0; i < kGroupDepth; i += kGroupStep) {
    const Vec<float> v = hn::LoadU(d, x + i);
    least = hn::Min(least, v);
    most = hn::Max(most, v);
    spoilt = hn::MulAdd(v, hn::Zero(d), spoilt);  // 0 * NaN and 0 * infinity are NaN
  }
  const float low = hn::GetLane(hn::MinOfLanes(d, least)), range = hn::GetLane(hn::MaxOfLanes(d, most)) - low;
  const float unit = range / kMostOfRow + hn::GetLane(hn::SumOfLanes(d, spoilt));
  // Below this the inverse overflows, and the numbers count as zeros; above, the range does.
  const float inverse = unit > 1e-36f && unit < 1e36f ? kMostOfRow / range : 0;
  return {inverse, hn::GetLane(hn::Round(hn::Set(d, -low * inverse))), unit};
}

void quantize_groups(const float* x, std::int64_t depth, std::byte* quantized, float* scales) {
  const Tag<float> d;
  HWY_ALIGN float rest[kGroupDepth] = {};
  for (std::int64_t begin = 0; begin < depth; begin += kGroupDepth) {
    const float* from = x + begin;
    if (depth - begin < kGroupDepth) {
      for (std::int64_t i = begin; i < depth; ++i) rest[i - begin] = x[i];
      from = rest;
    }
    const GroupUnits units = group_units(from);
    const Vec<float> inverse = hn::Set(d, units.inverse);
#if QKV_BYTE_ROWS
    const Whole whole;
    const hn::Rebind<std::uint8_t, Tag<float>> bytes;
    auto* to = reinterpret_cast<std::uint8_t*>(quantized) + begin;
    const auto zero = hn::Set(whole, static_cast<std::int32_t>(units.zero));
    for (std::int64_t i = 0; i < kGroupDepth; i += kGroupStep) {
      const auto number = hn::Add(hn::NearestInt(hn::Mul(hn::LoadU(d, from + i), inverse)), zero);
      hn::StoreU(hn::DemoteTo(bytes, number), bytes, to + i);  // at most kMostOfRow
    }
#else
    float* to = reinterpret_cast<float*>(quantized) + begin;
    const Vec<float> most = hn::Set(d, kMostOfRow - units.zero);
    for (std::int64_t i = 0; i < kGroupDepth; i += kGroupStep) {
      hn::StoreU(hn::Min(hn::Round(hn::Mul(hn::LoadU(d, from + i), inverse)), most), d, to + i);
    }
#endif
    *scales++ = units.unit;
    *scales++ = units.zero;
  }
}

bool has_byte_rows() { return QKV_BYTE_ROWS == 1; }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "core/mathematics.h"
#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(quantize_groups);
HWY_EXPORT(has_byte_rows);

bool uses_byte_rows() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(has_byte_rows)();
}

}  // namespace

int int8_groups_step() { return uses_byte_rows() ? 4 : 1; }

std::int64_t quantized_groups_bytes(std::int64_t depth) {
  const std::size_t one = uses_byte_rows() ? sizeof(std::uint8_t) : sizeof(float);
  return divide_up(depth, kGroupDepth) * kGroupDepth * static_cast<std::int64_t>(one);
}

void quantize_row_groups(const float* x, std::int64_t depth, std::byte* quantized, float* scales) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(quantize_groups)(x, depth, quantized, scales);
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
