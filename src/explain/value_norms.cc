// Projects values as W_O does, and takes their lengths.
#include "explain/value_norms.h"

#include <cmath>

#include "explain/observe.h"
#include "qkv/matmul.h"

namespace qkv::inline explaining {

Tensor value_lengths(const TensorView& value, const TensorView& out_weight, std::int64_t heads, std::int64_t head) {
  Tensor rows = part_of(value, head * value.size(1) / heads);
  const std::int64_t size = rows.size(1);
  if (out_weight.element_count() > 0) {
    const Tensor own = convert(out_weight.slice(1, head * size, (head + 1) * size), Dtype::f64);
    Tensor projected = Tensor::uninitialized({rows.size(0), own.size(0)}, Dtype::f64);
    matmul(rows, own.view().transpose(0, 1), projected);
    rows = std::move(projected);
  }
  Tensor lengths = Tensor::zeros({rows.size(0)}, Dtype::f64);
  for (std::int64_t j = 0; j < rows.size(0); ++j) {
    const double* row = rows.data<double>() + j * rows.size(1);
    double squares = 0;
    for (std::int64_t e = 0; e < rows.size(1); ++e) squares += row[e] * row[e];
    lengths.data<double>()[j] = std::sqrt(squares);
  }
  return lengths;
}

Tensor value_norms(const Tensor& weights, const Tensor& lengths) {
  Tensor norms = weights;
  for (std::int64_t i = 0; i < norms.element_count(); ++i) {
    norms.data<double>()[i] *= lengths.data<double>()[i % lengths.size(0)];
  }
  return norms;
}

}  // namespace qkv::inline explaining
