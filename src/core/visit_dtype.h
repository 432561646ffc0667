// From a Dtype to the C++ type of its elements: visit_dtype(dtype, [&]<class T>(T) { ... }), and the same for what is
// f32 or f64 alone. And f16 to f32.
#pragma once

#include <bit>
#include <cstdint>

#include "qkv/dtype.h"

namespace qkv::inline core {

template <class Visitor>
decltype(auto) visit_dtype(Dtype dtype, Visitor&& visitor) {
  switch (dtype) {
    case Dtype::f64:
      return visitor(double{});
    case Dtype::bf16:
      return visitor(BFloat16{});
    case Dtype::f16:
      return visitor(Float16{});
    case Dtype::i8:
      return visitor(std::int8_t{});
    case Dtype::u8:
      return visitor(std::uint8_t{});
    case Dtype::i16:
      return visitor(std::int16_t{});
    case Dtype::u16:
      return visitor(std::uint16_t{});
    case Dtype::i32:
      return visitor(std::int32_t{});
    case Dtype::u32:
      return visitor(std::uint32_t{});
    case Dtype::i64:
      return visitor(std::int64_t{});
    case Dtype::u64:
      return visitor(std::uint64_t{});
    case Dtype::boolean:
      return visitor(bool{});
    case Dtype::f32:
      break;
  }
  return visitor(float{});
}

template <class Visitor>
decltype(auto) visit_f32_f64(Dtype dtype, Visitor&& visitor) {
  return dtype == Dtype::f64 ? visitor(double{}) : visitor(float{});
}

// The number whose IEEE 754 binary16 form is `bits`, without a branch, so that compilers make vectors of it: models are
// read in this type.
inline float float_of_half(std::uint16_t bits) {
  constexpr std::uint32_t kExponent = 0x1fu << 23;  // all ones in f16, where f32 has it
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13, exponent = magnitude & kExponent;
  const std::uint32_t normal = magnitude + (112u << 23);  // the biases of the exponents differ by 112
  // A subnormal number lacks its leading one: beside 2^-14 it has one, and the difference is exact.
  const float subnormal = std::bit_cast<float>(normal + (1u << 23)) - 0x1p-14f;
  const std::uint32_t finite = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  const std::uint32_t result = exponent == kExponent ? magnitude | 0x7f800000u : finite;
  return std::bit_cast<float>(result | (bits & 0x8000u) << 16);
}

}  // namespace qkv::inline core
