// Where the numbers of tensors of torch lie: which are copied before they are read, and how results lie.
#pragma once

#include <nanobind/nanobind.h>

#include "arrays.h"
#include "qkv/tensor.h"

namespace qkv::python {

// Whether so many queries read keys, or values, faster from a copy of theirs without gaps.
bool is_better_copied(const TensorView& keys, const TensorView& query);

// What becomes a tensor of torch: memory of ours, or a tensor already.
struct NewRows {
  Tensor memory{};
  nanobind::object tensor{};
  MutableTensorView view{};

  nanobind::object give();
};

// Row-major.
NewRows new_rows(const Dims& shape, Dtype dtype);
// The last dimension without gaps, the strides of the others in the order of those of the tensor, as torch.empty_like
// has them: what was split into heads is put together again without a copy.
NewRows new_rows_like(nanobind::handle tensor);
NewRows new_rows_like(nanobind::handle tensor, const TensorView& view);  // of the tensor itself
NewRows new_rows_like(nanobind::handle tensor, const Array& rows);       // it, or a copy

}  // namespace qkv::python
