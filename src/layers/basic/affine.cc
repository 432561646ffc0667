// Computes the gradients of y = x W^T + b.
#include "layers/basic/affine.h"

#include <algorithm>

#include "core/stop.h"
#include "qkv/threads.h"

namespace qkv::inline layers {
namespace {

// Rows whose sum is taken before it is added to the total: rounding errors of a few hundred terms, as in matmul.
constexpr std::int64_t kSumRows = 512;

// sums [columns of the matrix] += the sum of its rows.
template <class T>
void add_column_sums(const PackedMatrix& matrix, const MutableTensorView& sums, int threads) {
  const std::int64_t rows = matrix.rows(), width = matrix.panel_columns();
  parallel_for(matrix.panels().size(0), threads, [&](std::int64_t index, int) {
    const T* panel = matrix.panels().data<T>() + index * rows * width;
    T* total = sums.data<T>() + index * width;
    const std::int64_t columns = std::min(width, matrix.columns() - index * width);
    T sum[64];  // a panel has up to 48 columns
    for (std::int64_t begin = 0; begin < rows; begin += kSumRows) {
      check_stop();
      std::fill_n(sum, width, T(0));
      for (std::int64_t r = begin; r < std::min(begin + kSumRows, rows); ++r) {
        for (std::int64_t c = 0; c < width; ++c) sum[c] += panel[r * width + c];
      }
      for (std::int64_t c = 0; c < columns; ++c) total[c] += sum[c];
    }
  });
}

}  // namespace

void affine_backward(PackedRows& x, const TensorView& weight, const TensorView& grad_out,
                     const AffineGradients& gradients, int threads) {
  if (gradients.weight || gradients.bias) {
    const PackedMatrix packed(grad_out, threads);
    if (gradients.weight) {
      matmul_transposed(packed, x.packed(threads), gradients.weight, {.accumulate = true, .threads = threads});
    }
    if (gradients.bias) {
      grad_out.dtype() == Dtype::f64 ? add_column_sums<double>(packed, gradients.bias, threads)
                                     : add_column_sums<float>(packed, gradients.bias, threads);
    }
  }
  if (gradients.x) {
    matmul(grad_out, PackedMatrix(weight, threads, x.storage()), gradients.x, {.accumulate = true, .threads = threads});
  }
}

}  // namespace qkv::inline layers
