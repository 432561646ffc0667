// NumPy's arrays in C (`__array_struct__`, "The array interface protocol", version 3): their memory without DLPack's
// capsules.
#pragma once

#include <nanobind/nanobind.h>

#include "qkv/tensor.h"

namespace qkv::python {

namespace nb = nanobind;

// A view of what `object`, an ndarray itself, holds, as long as that lives and keeps its size. Not set for elements
// that qkv lacks or that are not native, for strides that are no multiple of the elements' size, and, to write, where
// it is read-only.
bool view_numpy(nb::handle object, TensorView& view);
bool view_numpy(nb::handle object, MutableTensorView& view);

}  // namespace qkv::python
