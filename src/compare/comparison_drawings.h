// A comparison as drawings.
#pragma once

#include <map>
#include <string>

#include "qkv/compare.h"

namespace qkv::comparison {

// SVG by the name of its file: accuracy.svg, gradient.svg, cost.svg and translating.svg, those that there is something
// to draw for.
std::map<std::string, std::string> drawings_of(const Comparison& comparison);

}  // namespace qkv::comparison
