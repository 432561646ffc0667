// The int8 kernel of matmul, compiled once per CPU target.
#include "ops/matmul/int8_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/int8_panel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "ops/matmul/int8_store-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline constexpr int kColumns = kTileColumns<float>;
inline constexpr int kStep = kLanes<float>;

// Bytes of the left operand are whole numbers plus this: the instruction wants them without a sign.
inline constexpr int kByteZero = 128;

float largest_magnitude(const float* x, std::int64_t count) {
  const Tag<float> d;
  Vec<float> largest = hn::Zero(d), spoilt = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const Vec<float> v = hn::LoadU(d, x + i);
    largest = hn::Max(largest, hn::Abs(v));
    spoilt = hn::MulAdd(v, hn::Zero(d), spoilt);  // 0 * NaN and 0 * infinity are NaN
  }
  HWY_ALIGN float lanes[kStep], zeros[kStep];
  hn::Store(largest, d, lanes);
  hn::Store(spoilt, d, zeros);
  float result = 0, zero = 0;
  for (int lane = 0; lane < kStep; ++lane) {
    if (lanes[lane] > result) result = lanes[lane];
    zero += zeros[lane];
  }
  for (; i < count; ++i) {
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    if (magnitude > result) result = magnitude;
    zero += x[i] * 0;
  }
  return result + zero;
}

// Whole numbers of a row, as floats or as bytes.
void quantize(const float* x, std::int64_t depth, bool bytes, std::byte* quantized, float* scale) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> whole;
  const hn::Rebind<std::uint8_t, Tag<float>> narrow;
  const float largest = largest_magnitude(x, depth);
  *scale = largest / 127;
  const bool usable = largest > 0;
  const Vec<float> inverse = hn::Set(d, usable ? 127 / largest : 0), zero = hn::Zero(d);
  for (std::int64_t i = 0; i < depth; i += kStep) {
    Vec<float> v;
    if (depth - i >= kStep) {
      v = hn::LoadU(d, x + i);
    } else {
      HWY_ALIGN float rest[kStep] = {};
      for (std::int64_t j = i; j < depth; ++j) rest[j - i] = x[j];
      v = hn::Load(d, rest);
    }
    // 127 / largest overflows for subnormal rows; what it makes of 0 must stay 0.
    const Vec<float> product = hn::Mul(v, inverse);
    const Vec<float> limited = hn::Min(hn::Max(product, hn::Set(d, -127.0f)), hn::Set(d, 127.0f));
    const Vec<float> rounded = hn::Round(hn::IfThenElse(hn::Eq(product, product), limited, zero));
    if (bytes) {
      const auto shifted = hn::Add(hn::ConvertTo(whole, rounded), hn::Set(whole, kByteZero));
      hn::StoreU(hn::DemoteTo(narrow, shifted), narrow, reinterpret_cast<std::uint8_t*>(quantized) + i);
    } else {
      hn::StoreU(rounded, d, reinterpret_cast<float*>(quantized) + i);
    }
  }
}

#if HWY_TARGET == HWY_AVX3

// sums [kRows][kColumns] of one tile; `groups` of four steps.
template <int kRows>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) void sum_bytes(
    const std::uint8_t* left, std::int64_t stride, const std::int8_t* panel, std::int64_t groups, std::int32_t* sums) {
  __m512i sum[kRows][kTileVectors];
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = _mm512_setzero_si512();
  }
  for (std::int64_t g = 0; g < groups; ++g, panel += 4 * kColumns) {
    __m512i row[kTileVectors];
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) row[c] = _mm512_loadu_si512(panel + 64 * c);
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      std::int32_t four;
      std::memcpy(&four, left + r * stride + 4 * g, 4);
      const __m512i element = _mm512_set1_epi32(four);
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = _mm512_dpbusd_epi32(sum[r][c], element, row[c]);
    }
  }
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) { _mm512_storeu_si512(sums + r * kColumns + 16 * c, sum[r][c]); }
  }
}

#endif

// The same by multiply-adds of floats: products of whole numbers up to 127 sum up exactly for 1,040 steps.
inline constexpr std::int64_t kExactSteps = 1024;

template <int kRows>
HWY_NOINLINE void sum_floats(const float* left, std::int64_t stride, const std::int8_t* panel, std::int64_t depth,
                             std::int32_t* sums) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> whole;
  for (std::int64_t begin = 0; begin == 0 || begin < depth; begin += kExactSteps) {
    Vec<float> sum[kRows][kTileVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = hn::Zero(d);
    }
    const std::int64_t steps = depth - begin < kExactSteps ? depth - begin : kExactSteps;
    multiply_tile<kRows, kTileVectors>(left + begin, stride, 1, panel + begin * kColumns, kColumns, steps, sum);
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
        std::int32_t* to = sums + r * kColumns + c * kStep;
        const auto part = hn::ConvertTo(whole, sum[r][c]);
        hn::StoreU(begin == 0 ? part : hn::Add(hn::LoadU(whole, to), part), whole, to);
      }
    }
  }
}

template <int kRows>
HWY_INLINE void sum_tile(const Int8Product& product, bool bytes, std::int64_t row, std::int32_t* sums) {
#if HWY_TARGET == HWY_AVX3
  if (bytes) {
    return sum_bytes<kRows>(reinterpret_cast<const std::uint8_t*>(product.left + row * product.left_stride),
                            product.left_stride, product.panel, (product.depth + 3) / 4, sums);
  }
#else
  static_cast<void>(bytes);
#endif
  sum_floats<kRows>(reinterpret_cast<const float*>(product.left + row * product.left_stride),
                    product.left_stride / static_cast<std::int64_t>(sizeof(float)), product.panel, product.depth, sums);
}

// sums -= zero * column_sums; out (+)= scale * column_scales * sums (+ bias).
void scale_row(const Int8Product& product, std::int32_t zero, std::int64_t row, const std::int32_t* sums) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> whole;
  const float row_scale = product.scales[row];
  std::int64_t c = 0;
  for (; c + kStep <= product.columns; c += kStep) {
    const auto exact =
        hn::Sub(hn::LoadU(whole, sums + c), hn::Mul(hn::LoadU(whole, product.column_sums + c), hn::Set(whole, zero)));
    const Vec<float> scale = hn::Mul(hn::Set(d, row_scale), hn::LoadU(d, product.column_scales + c));
    store_values(product, row, c, hn::Mul(hn::ConvertTo(d, exact), scale));
  }
  if (c == product.columns) return;
  HWY_ALIGN float rest[kStep] = {};
  for (std::int64_t i = c; i < product.columns; ++i) {
    const std::int32_t exact = sums[i] - product.column_sums[i] * zero;
    rest[i - c] = static_cast<float>(exact) * (row_scale * product.column_scales[i]);
  }
  store_values(product, row, c, hn::Load(d, rest));
}

template <int kRows>
HWY_INLINE std::int64_t multiply_rows(const Int8Product& product, bool bytes, std::int64_t row) {
  HWY_ALIGN std::int32_t sums[kRows * kColumns];
  for (; row + kRows <= product.rows; row += kRows) {
    sum_tile<kRows>(product, bytes, row, sums);
    for (int r = 0; r < kRows; ++r) scale_row(product, bytes ? kByteZero : 0, row + r, sums + r * kColumns);
  }
  return row;
}

void multiply_int8(const Int8Product& product, bool bytes) {
  std::int64_t row = multiply_rows<kTileRows>(product, bytes, 0);
  row = multiply_rows<4>(product, bytes, row);
  row = multiply_rows<2>(product, bytes, row);
  multiply_rows<1>(product, bytes, row);
}

bool has_byte_products() {
#if HWY_TARGET == HWY_AVX3
  return __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(quantize);
HWY_EXPORT(multiply_int8);
HWY_EXPORT(has_byte_products);

bool uses_bytes() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(has_byte_products)();
}

// Of the widest vector: what is beyond the depth is 0.
std::int64_t padded(std::int64_t depth) { return (depth + 15) / 16 * 16; }

}  // namespace

int int8_group() { return uses_bytes() ? 4 : 1; }

std::int64_t quantized_bytes(std::int64_t depth) {
  return padded(depth) * static_cast<std::int64_t>(uses_bytes() ? sizeof(std::uint8_t) : sizeof(float));
}

void quantize_row(const float* x, std::int64_t depth, std::byte* quantized, float* scale) {
  const bool bytes = uses_bytes();
  HWY_DYNAMIC_DISPATCH(quantize)(x, depth, bytes, quantized, scale);
}

void multiply_int8_panel(const Int8Product& product) {
  const bool bytes = uses_bytes();
  HWY_DYNAMIC_DISPATCH(multiply_int8)(product, bytes);
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
