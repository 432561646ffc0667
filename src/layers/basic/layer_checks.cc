// Checks sizes, and the names, shapes and types of tensors.
#include "layers/basic/layer_checks.h"

#include <fmt/format.h>

#include "core/refuse.h"
#include "io/files/text.h"
#include "qkv/error.h"

namespace qkv::inline layers {

void check_size(std::string_view layer, std::string_view name, std::int64_t value) {
  if (value >= 1 && value <= kMaxLayerSize) return;
  refuse(layer, "{} is {}; it must be 1 to {}", name, value, kMaxLayerSize);
}

void expect_tensor(const std::string& origin, const std::string& name, const std::optional<TensorForm>& found,
                   const Dims& shape) {
  if (!found) {
    throw FormatError(fmt::format("{}: tensor \"{}\" {} is missing", origin, name, to_string(shape)));
  }
  if (found->shape != shape) {
    throw FormatError(
        fmt::format("{}: tensor \"{}\" is {}; it must be {}", origin, name, to_string(found->shape), to_string(shape)));
  }
  if (!is_floating(found->dtype)) {
    throw FormatError(
        fmt::format("{}: tensor \"{}\" is {}; it must be a floating type", origin, name, name_of(found->dtype)));
  }
}

void refuse_left_over(const std::string& origin, const std::string& first, std::size_t count) {
  throw FormatError(fmt::format("{}: tensor {}{} is not part of this model", origin, io::quote(first),
                                count > 1 ? fmt::format(" (and {} more)", count - 1) : ""));
}

}  // namespace qkv::inline layers
