// The kernel of matmul for int8 weights in groups, compiled once per CPU target.
#include "ops/matmul/int8_groups_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/int8_groups_panel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "simd/tile-inl.h"

// Whether rows are bytes, and panels hold four steps together; else rows are floats, less what stands for 0.
#undef QKV_BYTE_ROWS
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
#define QKV_BYTE_ROWS 1
#else
#define QKV_BYTE_ROWS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline constexpr int kGroupColumns = kTileColumns<float>;
inline constexpr int kGroupStep = kLanes<float>;
using Whole = hn::RebindToSigned<Tag<float>>;

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

// A tile's results so far, [kRows][kGroupColumns].
template <int kRows>
using Totals = float[kRows * kGroupColumns];

// totals += scales of the rows * scales of the columns * (sums - what stands for 0 in the rows * sums of the columns).
template <int kRows>
HWY_INLINE void add_group(const Int8Product& product, std::int64_t row, std::int64_t group,
                          const Vec<float> (&sums)[kRows][kTileVectors], Totals<kRows>& totals) {
  const Tag<float> d;
  Vec<float> column_scales[kTileVectors], column_sums[kTileVectors];
  QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
    const std::int64_t at = group * kGroupColumns + c * kGroupStep;
    column_scales[c] = hn::LoadU(d, product.column_scales + at);
    column_sums[c] = hn::ConvertTo(d, hn::LoadU(Whole(), product.column_sums + at));
  }
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    const float* scales = product.scales + ((row + r) * product.groups + group) * kScalesOfGroup;
    const Vec<float> row_scale = hn::Set(d, scales[0]);
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
      float* total = totals + r * kGroupColumns + c * kGroupStep;
#if QKV_BYTE_ROWS
      const Vec<float> sum = hn::NegMulAdd(hn::Set(d, scales[1]), column_sums[c], sums[r][c]);  // all exact
#else
      const Vec<float> sum = sums[r][c];
#endif
      const Vec<float> value = hn::Mul(sum, hn::Mul(row_scale, column_scales[c]));
      hn::Store(hn::Add(hn::Load(d, total), value), d, total);
    }
  }
}

#if QKV_BYTE_ROWS

// The compiler keeps arrays of these in registers, those of Highway's vectors of whole numbers not.
using RawWhole = decltype(hn::Zero(Whole()).raw);

// sum + four products of bytes, those of `left` without a sign, in each lane.
struct PairsOfProducts {
  static HWY_INLINE RawWhole add(RawWhole sum, RawWhole left, RawWhole right) {
#if HWY_TARGET == HWY_AVX3
    return _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(left, right), _mm512_set1_epi16(1)));
#elif HWY_TARGET == HWY_AVX2
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(left, right), _mm256_set1_epi16(1)));
#else
    return _mm_add_epi32(sum, _mm_madd_epi16(_mm_maddubs_epi16(left, right), _mm_set1_epi16(1)));
#endif
  }
};

#if HWY_TARGET == HWY_AVX3
// By AVX512-VNNI, which not every CPU of this target has: _mm512_dpbusd_epi32 would want it in the whole function.
struct FourProducts {
  static HWY_INLINE RawWhole add(RawWhole sum, RawWhole left, RawWhole right) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right));
    return sum;
  }
};
#endif

template <int kRows, class Products>
HWY_NOINLINE void sum_groups(const Int8Product& product, std::int64_t row, Totals<kRows>& totals) {
  constexpr std::int64_t kSteps = 4;
  const Whole whole;
  const hn::Repartition<std::int8_t, Whole> bytes;
  const auto* HWY_RESTRICT left = reinterpret_cast<const std::uint8_t*>(product.left + row * product.left_stride);
  const std::int8_t* HWY_RESTRICT panel = product.panel;
  const std::int64_t stride = product.left_stride;
  for (std::int64_t group = 0; group < product.groups; ++group) {
    RawWhole sum[kRows][kTileVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = hn::Zero(whole).raw;
    }
    for (std::int64_t k = 0; k < kGroupDepth; k += kSteps, left += kSteps, panel += kSteps * kGroupColumns) {
      QKV_UNROLL for (int r = 0; r < kRows; ++r) {
        std::int32_t four;
        std::memcpy(&four, left + r * stride, sizeof(four));
        const RawWhole element = hn::Set(whole, four).raw;
        QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
          sum[r][c] = Products::add(sum[r][c], element, hn::LoadU(bytes, panel + c * kSteps * kGroupStep).raw);
        }
        // A row is finished before the next: GCC would begin them all, and run out of registers.
        asm volatile("" : "+v"(sum[r][0]), "+v"(sum[r][1]), "+v"(sum[r][2]));
      }
    }
    Vec<float> sums[kRows][kTileVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
        sums[r][c] = hn::ConvertTo(Tag<float>(), hn::Vec<Whole>{sum[r][c]});
      }
    }
    add_group<kRows>(product, row, group, sums, totals);
  }
}

template <int kRows>
HWY_INLINE void sum_any_groups(const Int8Product& product, bool four_products, std::int64_t row,
                               Totals<kRows>& totals) {
#if HWY_TARGET == HWY_AVX3
  if (four_products) return sum_groups<kRows, FourProducts>(product, row, totals);
#else
  static_cast<void>(four_products);
#endif
  sum_groups<kRows, PairsOfProducts>(product, row, totals);
}

#else

// By multiply-adds of floats, in which the sums of a group are exact.
template <int kRows>
HWY_NOINLINE void sum_any_groups(const Int8Product& product, bool, std::int64_t row, Totals<kRows>& totals) {
  const std::int64_t stride = product.left_stride / static_cast<std::int64_t>(sizeof(float));
  const float* left = reinterpret_cast<const float*>(product.left) + row * stride;
  for (std::int64_t group = 0; group < product.groups; ++group) {
    Vec<float> sum[kRows][kTileVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = hn::Zero(Tag<float>());
    }
    multiply_tile<kRows, kTileVectors>(left + group * kGroupDepth, stride, 1,
                                       product.panel + group * kGroupDepth * kGroupColumns, kGroupColumns, kGroupDepth,
                                       sum);
    add_group<kRows>(product, row, group, sum, totals);
  }
}

#endif

// out = (out +) total (+ bias), in this order.
void store_totals(const Int8Product& product, std::int64_t row, const float* totals) {
  const Tag<float> d;
  float* out = product.out + row * product.out_stride;
  std::int64_t c = 0;
  for (; c + kGroupStep <= product.columns; c += kGroupStep) {
    Vec<float> value = hn::Load(d, totals + c);
    if (product.accumulate) value = hn::Add(hn::LoadU(d, out + c), value);
    if (product.bias != nullptr) value = hn::Add(value, hn::LoadU(d, product.bias + c));
    hn::StoreU(value, d, out + c);
  }
  for (; c < product.columns; ++c) {
    const float value = product.accumulate ? out[c] + totals[c] : totals[c];
    out[c] = product.bias == nullptr ? value : value + product.bias[c];
  }
}

template <int kRows>
HWY_INLINE std::int64_t multiply_group_rows(const Int8Product& product, bool four_products, std::int64_t row) {
  for (; row + kRows <= product.rows; row += kRows) {
    HWY_ALIGN Totals<kRows> totals = {};
    sum_any_groups<kRows>(product, four_products, row, totals);
    for (int r = 0; r < kRows; ++r) store_totals(product, row + r, totals + r * kGroupColumns);
  }
  return row;
}

void multiply_groups(const Int8Product& product, bool four_products) {
  std::int64_t row = multiply_group_rows<kTileRows>(product, four_products, 0);
  row = multiply_group_rows<4>(product, four_products, row);
  row = multiply_group_rows<2>(product, four_products, row);
  multiply_group_rows<1>(product, four_products, row);
}

bool has_byte_rows() { return QKV_BYTE_ROWS == 1; }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "core/divide_up.h"
#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(quantize_groups);
HWY_EXPORT(multiply_groups);
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

void multiply_int8_groups_panel(const Int8Product& product) {
  const bool four_products = int8_group() == 4;  // where rows are bytes
  HWY_DYNAMIC_DISPATCH(multiply_groups)(product, four_products);
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
