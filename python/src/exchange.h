// DLPack's exchange interface in C, which torch has from 2.10: tensors in and out without calls of Python.
#pragma once

#include <nanobind/nanobind.h>

#include "qkv/tensor.h"

namespace qkv::python {

namespace nb = nanobind;

class Exchange {
 public:
  // What a type of arrays offers; nullptr: not this interface. Lives as long as the process.
  static const Exchange* of_type(nb::handle type);

  // A view of what `object` holds, as long as that lives; not set if it is on another device or of a type that qkv
  // lacks.
  bool view(nb::handle object, MutableTensorView& view) const;
  // The view, of the memory of `tensor`, as an array of this interface, which owns the memory.
  nb::object give(Tensor tensor, const MutableTensorView& view) const;

 private:
  struct Functions;
  explicit Exchange(const Functions* functions) : functions_(functions) {}

  const Functions* functions_;
};

}  // namespace qkv::python
