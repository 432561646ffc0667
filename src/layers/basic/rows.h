// Layers that treat every position alike see their input [..., size] as rows [n, size]. And other work on rows.
#pragma once

#include <string_view>
#include <vector>

#include "qkv/tensor.h"

namespace qkv::inline layers {

class LayerRows {
 public:
  // Without a copy where the strides allow it. std::invalid_argument unless x is [..., size].
  LayerRows(std::string_view layer, const TensorView& x, std::int64_t size);

  const TensorView& view() const { return view_; }  // [n, size], last stride 1
  std::int64_t count() const { return view_.size(0); }

 private:
  Tensor copy_;
  TensorView view_;
};

// An output [..., size], row-major or [n, size], as rows [n, size]. std::invalid_argument, naming it, if it
// has another shape than `wanted`.
MutableTensorView output_rows(std::string_view layer, std::string_view name, const MutableTensorView& output,
                              const Dims& wanted);

// The shape with another last extent.
Dims with_last(Dims shape, std::int64_t size);

// to += from, of the same shape and type.
void add_to(Tensor& to, const TensorView& from, int threads);

// rows *= factor.
void scale_rows(Tensor& rows, double factor);

// One below the other: tensors of at least one dimension that agree in all but the first, and in type.
Tensor stack_rows(std::vector<Tensor> parts);

}  // namespace qkv::inline layers
