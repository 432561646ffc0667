// A number in JSON, which has no words for some: "nan", "inf" and "-inf" are strings.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

namespace qkv::io {

inline nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

}  // namespace qkv::io
