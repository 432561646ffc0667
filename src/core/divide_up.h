// Division of whole numbers that rounds up.
#pragma once

#include <cstdint>

namespace qkv::inline core {

// Parts of size b that hold a.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace qkv::inline core
