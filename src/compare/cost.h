// Time and memory of a model.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/measurable.h"
#include "qkv/compare.h"

namespace qkv::comparison {

// In training and in answering, on one and on two threads. Stopped.
std::vector<ComparedCost> cost_of(Measurable& model, const std::vector<std::int64_t>& lengths);

}  // namespace qkv::comparison
