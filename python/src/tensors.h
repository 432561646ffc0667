// Tensors of torch on their way into attention and out of it.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "arrays.h"
#include "call_options.h"

namespace qkv::python {

// What becomes an array: memory of ours, row-major or with strides for torch, or a tensor already.
struct NewRows {
  Tensor memory{};
  nb::object tensor{};
  MutableTensorView view{};
  bool has_strides = false;

  nb::object give(Kind kind);
};

NewRows new_rows(const Dims& shape, Dtype dtype);
// The last dimension without gaps, the strides of the others in the order of those of the tensor, whose numbers `rows`
// are or are a copy of, as torch.empty_like has them: what was split into heads is put together again without a copy.
NewRows new_rows_like(nb::handle tensor, const Array& rows);

// The options of attention(), on as many threads as torch has unless given.
CallOptions take_tensor_options(const nb::dict& options);
// Keys or values as these queries read them best.
Array take_keys(nb::handle tensor, std::string_view name, const TensorView& query);

}  // namespace qkv::python
