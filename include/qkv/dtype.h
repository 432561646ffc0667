/// \file
/// Element types of tensors, and the two 16-bit floating-point types that C++20 lacks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "qkv/api.h"

namespace qkv {

enum class Dtype : std::uint8_t { f32, f64, bf16, f16, i8, u8, i16, u16, i32, u32, i64, u64, boolean };

/// Bytes of one element.
QKV_API std::size_t size_of(Dtype dtype);

/// "f32", "bf16", "i64", "bool" ...: the names used on the command line and in messages.
QKV_API std::string_view name_of(Dtype dtype);

/// Whether the type is one of f32, f64, bf16 and f16.
QKV_API bool is_floating(Dtype dtype);

/// The upper half of an f32. Conversion from float rounds to nearest, ties to even.
struct QKV_API BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value);
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

/// IEEE 754 binary16. Conversion from float rounds to nearest, ties to even.
struct QKV_API Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value);
  explicit operator float() const;
};

template <class T>
constexpr Dtype no_dtype() {
  static_assert(sizeof(T) == 0, "this C++ type is not an element type of qkv");
  return Dtype::f32;
}

/// The Dtype of a C++ element type: dtype_of<float> is Dtype::f32.
template <class T>
inline constexpr Dtype dtype_of = no_dtype<T>();
template <>
inline constexpr Dtype dtype_of<float> = Dtype::f32;
template <>
inline constexpr Dtype dtype_of<double> = Dtype::f64;
template <>
inline constexpr Dtype dtype_of<BFloat16> = Dtype::bf16;
template <>
inline constexpr Dtype dtype_of<Float16> = Dtype::f16;
template <>
inline constexpr Dtype dtype_of<std::int8_t> = Dtype::i8;
template <>
inline constexpr Dtype dtype_of<std::uint8_t> = Dtype::u8;
template <>
inline constexpr Dtype dtype_of<std::int16_t> = Dtype::i16;
template <>
inline constexpr Dtype dtype_of<std::uint16_t> = Dtype::u16;
template <>
inline constexpr Dtype dtype_of<std::int32_t> = Dtype::i32;
template <>
inline constexpr Dtype dtype_of<std::uint32_t> = Dtype::u32;
template <>
inline constexpr Dtype dtype_of<std::int64_t> = Dtype::i64;
template <>
inline constexpr Dtype dtype_of<std::uint64_t> = Dtype::u64;
template <>
inline constexpr Dtype dtype_of<bool> = Dtype::boolean;

}  // namespace qkv
