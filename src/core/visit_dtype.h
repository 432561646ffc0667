// From a Dtype to the C++ type of its elements: visit_dtype(dtype, [&]<class T>(T) { ... }), and the same for what is
// f32 or f64 alone.
#pragma once

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

}  // namespace qkv::inline core
