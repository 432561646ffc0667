// Computes the gradients of y = x W^T + b.
#include "layers/basic/affine.h"

#include <algorithm>

#include "core/mathematics.h"
#include "core/stop.h"
#include "ops/matmul/matmul_columns.h"
#include "qkv/threads.h"

namespace qkv::inline layers {
namespace {

// Rows whose sum is taken before it is added to the total: rounding errors of a few hundred terms, as in matmul.
constexpr std::int64_t kSumRows = 512;

constexpr std::int64_t kSumColumns = 128;  // of a task

// sums [columns of the matrix] += the sum of its rows.
template <class T>
void add_column_sums(const TensorView& matrix, const MutableTensorView& sums, int threads) {
  const std::int64_t rows = matrix.size(0);
  parallel_for(divide_up(matrix.size(1), kSumColumns), threads, [&](std::int64_t task, int) {
    const std::int64_t first = task * kSumColumns, columns = std::min(kSumColumns, matrix.size(1) - first);
    for (std::int64_t begin = 0; begin < rows; begin += kSumRows) {
      check_stop();
      T sum[kSumColumns] = {};
      for (std::int64_t r = begin; r < std::min(begin + kSumRows, rows); ++r) {
        const T* row = matrix.data<T>() + r * matrix.stride(0) + first;
        for (std::int64_t c = 0; c < columns; ++c) sum[c] += row[c];
      }
      for (std::int64_t c = 0; c < columns; ++c) sums.at<T>({first + c}) += sum[c];
    }
  });
}

}  // namespace

void affine_backward(PackedRows& x, const TensorView& weight, const TensorView& grad_out,
                     const AffineGradients& gradients, int threads) {
  if (gradients.weight) {
    matmul_transposed_rows(grad_out, x.packed(threads), gradients.weight, {.accumulate = true, .threads = threads});
  }
  if (gradients.bias) {
    grad_out.dtype() == Dtype::f64 ? add_column_sums<double>(grad_out, gradients.bias, threads)
                                   : add_column_sums<float>(grad_out, gradients.bias, threads);
  }
  if (gradients.x) {
    matmul(grad_out, PackedMatrix(weight, threads, x.storage()), gradients.x, {.accumulate = true, .threads = threads});
  }
}

}  // namespace qkv::inline layers
