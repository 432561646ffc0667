// Rounds the left operand of matmul for int8 weights, compiled once per CPU target.
#include "ops/matmul/int8_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/int8_rows.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

float largest_magnitude(const float* x, std::int64_t count) {
  const Tag<float> d;
  Vec<float> largest = hn::Zero(d), spoilt = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + kLanes<float> <= count; i += kLanes<float>) {
    const Vec<float> v = hn::LoadU(d, x + i);
    largest = hn::Max(largest, hn::Abs(v));
    spoilt = hn::MulAdd(v, hn::Zero(d), spoilt);  // 0 * NaN and 0 * infinity are NaN
  }
  HWY_ALIGN float lanes[kLanes<float>], zeros[kLanes<float>];
  hn::Store(largest, d, lanes);
  hn::Store(spoilt, d, zeros);
  float result = 0, zero = 0;
  for (int lane = 0; lane < kLanes<float>; ++lane) {
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

void quantize(const float* x, std::int64_t depth, Int8Rows rows, std::byte* quantized, float* scale) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> whole;
  const hn::Rebind<std::int8_t, Tag<float>> bytes;
  const float largest = largest_magnitude(x, depth);
  *scale = largest / 127;
  const bool usable = largest > 0;
  const Vec<float> inverse = hn::Set(d, usable ? 127 / largest : 0), zero = hn::Zero(d);
  for (std::int64_t i = 0; i < depth; i += kLanes<float>) {
    Vec<float> v;
    if (depth - i >= kLanes<float>) {
      v = hn::LoadU(d, x + i);
    } else {
      HWY_ALIGN float rest[kLanes<float>] = {};
      for (std::int64_t j = i; j < depth; ++j) rest[j - i] = x[j];
      v = hn::Load(d, rest);
    }
    // 127 / largest overflows for subnormal rows; what it makes of 0 must stay 0.
    const Vec<float> product = hn::Mul(v, inverse);
    const Vec<float> limited = hn::Min(hn::Max(product, hn::Set(d, -127.0f)), hn::Set(d, 127.0f));
    const Vec<float> rounded = hn::Round(hn::IfThenElse(hn::Eq(product, product), limited, zero));
    if (rows == Int8Rows::floats) {
      hn::StoreU(rounded, d, reinterpret_cast<float*>(quantized) + i);
      continue;
    }
    auto numbers = hn::DemoteTo(bytes, hn::ConvertTo(whole, rounded));
    if (rows == Int8Rows::bytes_from_zero) numbers = hn::Add(numbers, hn::Set(bytes, kByteZero - 256));  // mod 256
    hn::StoreU(numbers, bytes, reinterpret_cast<std::int8_t*>(quantized) + i);
  }
}

Int8Rows form_of_rows() {
#if HWY_TARGET == HWY_AVX3
  return __builtin_cpu_supports("avx512vnni") ? Int8Rows::bytes_from_zero : Int8Rows::floats;
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
  return Int8Rows::bytes;
#else
  return Int8Rows::floats;
#endif
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(quantize);
HWY_EXPORT(form_of_rows);

// Of the widest vector: what is beyond the depth is 0.
std::int64_t padded(std::int64_t depth) { return (depth + 15) / 16 * 16; }

}  // namespace

Int8Rows int8_rows() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(form_of_rows)();
}

std::int64_t quantized_bytes(std::int64_t depth) {
  return padded(depth) *
         static_cast<std::int64_t>(int8_rows() == Int8Rows::floats ? sizeof(float) : sizeof(std::int8_t));
}

void quantize_row(const float* x, std::int64_t depth, std::byte* quantized, float* scale) {
  const Int8Rows rows = int8_rows();
  HWY_DYNAMIC_DISPATCH(quantize)(x, depth, rows, quantized, scale);
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
