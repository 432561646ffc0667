// A count and its unit: "1 token", "3 tokens".
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace qkv::inline core {

// `many`: the plural; empty if it is `one` and an s.
inline std::string counted(std::int64_t count, std::string_view one, std::string_view many = {}) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

}  // namespace qkv::inline core
