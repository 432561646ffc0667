// How a number grows with the length of a sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "qkv/compare.h"

namespace qkv::comparison {

// The exponent of the power of the length that fits best: least squares of the logarithms. 0 where a value is not above
// 0.
double fitted_exponent(const std::vector<std::int64_t>& lengths, const std::vector<double>& values);

ComparedGrowth growth_of(const std::vector<std::int64_t>& lengths, const std::function<double(std::int64_t)>& value);

}  // namespace qkv::comparison
