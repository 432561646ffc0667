// Matrix products of layers, on the attention kernel's tile. The sum over k has one fixed order, so that a row of the
// result has the same bits for any number of rows beside it and any number of threads.
#pragma once

#include <cstdint>

#include "qkv/tensor.h"

namespace qkv {

// The right operand of a product, laid out once for the selected target: columns in panels, zero-padded.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // From [k, n] with any strides, f32 or f64. For a Linear weight [out, in] pass weight.transpose(0, 1).
  // `threads` as in MatmulOptions.
  explicit PackedMatrix(const TensorView& matrix, int threads = 0);

  std::int64_t rows() const { return rows_; }        // k
  std::int64_t columns() const { return columns_; }  // n
  Dtype dtype() const { return data_.dtype(); }
  const Tensor& panels() const { return data_; }
  int panel_columns() const { return panel_columns_; }

 private:
  Tensor data_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  int panel_columns_ = 0;
};

struct MatmulOptions {
  TensorView bias = {};     // [n], added to every row; not given: nothing
  bool accumulate = false;  // add to what out holds
  int threads = 0;          // 0: threads()
};

// out [m, n] = a [m, k] b [k, n] (+ bias). a has any row stride and a unit last one; out likewise.
// std::invalid_argument if shapes, types or the target of the packing do not fit.
void matmul(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
            const MatmulOptions& options = {});

// Packs b for this call.
void matmul(const TensorView& a, const TensorView& b, const MutableTensorView& out, const MatmulOptions& options = {});

}  // namespace qkv
