/// \file
/// The version of the library that runs, which headers alone cannot tell.
#pragma once

#include <string_view>

#include "qkv/api.h"

namespace qkv {

/// MAJOR.MINOR.PATCH.
QKV_API std::string_view version();

/// The number of docs/arithmetic.md: versions that share it give f32 and f64 results the same bits.
inline constexpr int kArithmetic = 1;

}  // namespace qkv
