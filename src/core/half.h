// f16 to f32 without a branch, so that compilers make vectors of it: models are read in this type.
#pragma once

#include <bit>
#include <cstdint>

namespace qkv::inline core {

// The number whose IEEE 754 binary16 form is `bits`.
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
