// The header of an .npy file: a Python dictionary with the type, the order and the shape of the array.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/tensor.h"

namespace qkv::io {

struct NpyHeader {
  Dtype dtype = Dtype::f32;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;  // unchecked but for the rank
};

// FormatError beginning with `name` if the text breaks a rule.
NpyHeader parse_npy_header(std::string_view text, const std::string& name);

// The dictionary of an array in row-major order.
std::string npy_header_of(Dtype dtype, const Dims& shape);

}  // namespace qkv::io
