// What layers ask of the sizes in their configs, and of the tensors that files have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "qkv/layers/positions.h"
#include "qkv/tensor.h"

namespace qkv::inline layers {

// At least 1, and small enough that products of three cannot overflow.
inline constexpr std::int64_t kMaxLayerSize = std::int64_t{1} << 20;

// std::invalid_argument "LAYER: NAME is VALUE; it must be 1 to 1048576".
void check_size(std::string_view layer, std::string_view name, std::int64_t value);

// std::invalid_argument, beginning with `layer`, for a rotation that heads of that size cannot have (positions.h).
void check_rotary(std::string_view layer, const RotaryConfig& config, std::int64_t head_dim);

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
