// Where the numbers of tensors of torch lie: which are copied before they are read, and how results lie.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "qkv/tensor.h"

namespace qkv::python {

// Whether so many queries read keys, or values, faster from a copy of theirs without gaps.
bool is_better_copied(const TensorView& keys, const TensorView& query);

// Memory of ours that becomes a tensor of torch.
struct NewRows {
  Tensor memory;
  MutableTensorView view;

  // The tensor, which owns the memory.
  nanobind::object give();
};

// Row-major.
NewRows new_rows(const Dims& shape, Dtype dtype);
// With the strides of `like`, so that what was split into heads is put together again without a copy; not set where
// these leave gaps or share elements.
std::optional<NewRows> new_rows_like(const TensorView& like);

}  // namespace qkv::python
