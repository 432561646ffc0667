// What every layer asks of the sizes in its config: at least 1, and small enough that products of three cannot
// overflow.
#pragma once

#include <cstdint>
#include <string_view>

namespace qkv::inline layers {

inline constexpr std::int64_t kMaxLayerSize = std::int64_t{1} << 20;

// std::invalid_argument "LAYER: NAME is VALUE; it must be 1 to 1048576".
void check_size(std::string_view layer, std::string_view name, std::int64_t value);

}  // namespace qkv::inline layers
