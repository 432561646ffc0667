// Checks the sizes in the config of a layer.
#include "layers/basic/check_size.h"

#include <fmt/format.h>

#include <stdexcept>

namespace qkv {

void check_size(std::string_view layer, std::string_view name, std::int64_t value) {
  if (value >= 1 && value <= kMaxLayerSize) return;
  throw std::invalid_argument(fmt::format("{}: {} is {}; it must be 1 to {}", layer, name, value, kMaxLayerSize));
}

}  // namespace qkv
