// Checks the name, shape and type of a tensor of a file.
#include "layers/basic/expect_tensor.h"

#include <fmt/format.h>

#include "io/text.h"
#include "qkv/error.h"

namespace qkv::inline layers {

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
