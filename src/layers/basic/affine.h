// Gradients of y = x W^T + b, for every layer that is made of such products.
#pragma once

#include <optional>

#include "ops/matmul/reduced_rows.h"
#include "qkv/layers/parameter.h"
#include "qkv/matmul.h"

namespace qkv::inline layers {

// How right operands of gradients are kept.
inline WeightStorage for_gradients(WeightStorage storage) {
  return is_reduced(storage) ? storage : WeightStorage::full;
}

// Rows [n, size] that several products take as their right operand: packed once, when the first one asks.
class PackedRows {
 public:
  // `storage`: of the layer; if reduced, of every product of its gradients, else they are exact.
  explicit PackedRows(const TensorView& rows, WeightStorage storage = WeightStorage::full)
      : rows_(rows), storage_(for_gradients(storage)) {}

  const TensorView& view() const { return rows_; }
  const PackedMatrix& packed(int threads) {
    if (!packed_) packed_.emplace(rows_, threads, storage_);
    return *packed_;
  }
  WeightStorage storage() const { return storage_; }

 private:
  TensorView rows_;
  WeightStorage storage_;
  std::optional<PackedMatrix> packed_;
};

// Outputs that are added to; one that is not given is not wanted.
struct AffineGradients {
  MutableTensorView weight{};  // [out, in]
  MutableTensorView bias{};    // [out]
  MutableTensorView x{};       // [n, in]
};

// weight [out, in], which x's gradient alone needs; grad_out [n, out]. The sums over n have one order, whatever the
// number of threads.
void affine_backward(PackedRows& x, const TensorView& weight, const TensorView& grad_out,
                     const AffineGradients& gradients, int threads);

// Where the gradient of a parameter goes; not given if it is not wanted.
inline MutableTensorView gradient_view(Parameter& parameter) {
  return parameter.has_gradient() ? parameter.gradient.view() : MutableTensorView();
}

}  // namespace qkv::inline layers
