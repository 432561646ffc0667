// What a layer may expect of the tensor that a file has under a name.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "qkv/tensor.h"

namespace qkv::inline layers {

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
