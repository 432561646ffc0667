// How numbers are written in the walk-through: whole numbers plainly, all others with 5 decimals.
#pragma once

#include <string>

#include "qkv/tensor.h"

namespace qkv::inline explaining {

// Whether a value is a whole number, up to the rounding of a few operations in double.
bool is_whole(double value);

// "2", "0.46831", "6.03366e-06", "-inf".
std::string number_text(double value);

// With so many decimals; "0.00000", never "-0.00000".
std::string fixed_text(double value, int decimals);

// "(1 0 2)"; of more than `most` numbers, at least 3: "(0.10000 0.20000 0.30000 0.40000 ... 0.90000)". `values` is rank
// 1, f64.
std::string vector_text(const TensorView& values, std::int64_t most = 6);

}  // namespace qkv::inline explaining
