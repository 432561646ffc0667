// Checks the sizes in the config of a layer.
#include "layers/basic/check_size.h"

#include "core/refuse.h"

namespace qkv::inline layers {

void check_size(std::string_view layer, std::string_view name, std::int64_t value) {
  if (value >= 1 && value <= kMaxLayerSize) return;
  refuse(layer, "{} is {}; it must be 1 to {}", name, value, kMaxLayerSize);
}

}  // namespace qkv::inline layers
