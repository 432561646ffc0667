// What is counted from the layers of a model, and its reach beside it.
#pragma once

#include "compare/measurable.h"
#include "qkv/compare.h"

namespace qkv::comparison {

ComparedStructure structure_of(const Measurable& model, std::uint64_t seed);

}  // namespace qkv::comparison
