// Sizes and names of element types, and rounding from float to the 16-bit types.
#include "qkv/dtype.h"

#include <array>

#include "core/visit_dtype.h"

namespace qkv {
namespace {

struct Description {
  std::string_view name;
  std::size_t size;
};

// In the order of the enumeration.
constexpr std::array<Description, 13> kDtypes = {{{"f32", 4},
                                                  {"f64", 8},
                                                  {"bf16", 2},
                                                  {"f16", 2},
                                                  {"i8", 1},
                                                  {"u8", 1},
                                                  {"i16", 2},
                                                  {"u16", 2},
                                                  {"i32", 4},
                                                  {"u32", 4},
                                                  {"i64", 8},
                                                  {"u64", 8},
                                                  {"bool", 1}}};

}  // namespace

std::size_t size_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)].size; }

std::string_view name_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)].name; }

bool is_floating(Dtype dtype) { return dtype <= Dtype::f16; }

BFloat16::BFloat16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
  bits = static_cast<std::uint16_t>(nan ? (word >> 16) | 0x40u : (word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

Float16::Float16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((word >> 16) & 0x8000u);
  const std::uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    bits = static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  } else if (magnitude >= 0x477ff000u) {  // 65520 and more round to infinity
    bits = static_cast<std::uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {  // below 2^-14: subnormal, in units of 2^-24; the addition rounds to even
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits =
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f)));
  } else {
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
}

Float16::operator float() const { return float_of_half(bits); }

}  // namespace qkv
