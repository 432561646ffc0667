// An extent of pictures.
#pragma once

#include <cstdint>

namespace qkv {

struct HeightWidth {
  std::int64_t height = 1, width = 1;

  bool operator==(const HeightWidth&) const = default;
};

}  // namespace qkv
