// What layers ask of the sizes in their configs, and of the tensors that files have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "qkv/tensor.h"

namespace qkv::inline layers {

// At least 1, and small enough that products of three cannot overflow.
inline constexpr std::int64_t kMaxLayerSize = std::int64_t{1} << 20;

// std::invalid_argument "LAYER: NAME is VALUE; it must be 1 to 1048576".
void check_size(std::string_view layer, std::string_view name, std::int64_t value);

struct TensorForm {
  Dims shape;
  Dtype dtype = Dtype::f32;
};

// FormatError, beginning with `origin`, unless it is there, of that shape and of a floating type.
void expect_tensor(const std::string& origin, const std::string& name, const std::optional<TensorForm>& found,
                   const Dims& shape);

// FormatError: `count` tensors, of which `first` is one, belong to no part of the model.
[[noreturn]] void refuse_left_over(const std::string& origin, const std::string& first, std::size_t count);

}  // namespace qkv::inline layers
