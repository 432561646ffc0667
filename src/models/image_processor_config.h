// The bounds of an ImageProcessorConfig.
#pragma once

#include <cstdint>

namespace qkv::inline models {

inline constexpr std::int64_t kLongestProcessedEdge = 8000;  // its square is kMostPixels
// Of factors, means and deviations: no result overflows.
inline constexpr double kLeastFactor = 0x1p-20;
inline constexpr double kMostFactor = 0x1p20;

}  // namespace qkv::inline models
