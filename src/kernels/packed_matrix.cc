// Lays a matrix out in panels, [panel][row][column], the last one filled up with zeros.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/matmul_panel.h"
#include "qkv/matmul.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

template <class T>
void pack_panel(const TensorView& matrix, std::int64_t first_column, std::int64_t width, T* panel) {
  const T* source = matrix.data<T>() + first_column * matrix.stride(1);
  const std::int64_t rows = matrix.size(0), row_step = matrix.stride(0), column_step = matrix.stride(1);
  const std::int64_t columns = std::min(width, matrix.size(1) - first_column);
  for (std::int64_t k = 0; k < rows; ++k, source += row_step, panel += width) {
    for (std::int64_t c = 0; c < columns; ++c) panel[c] = source[c * column_step];
    std::fill(panel + columns, panel + width, T(0));
  }
}

template <class T>
Tensor pack(const TensorView& matrix, int width, int threads) {
  const std::int64_t rows = matrix.size(0);
  const std::int64_t panels = (matrix.size(1) + width - 1) / width;
  Tensor packed = Tensor::uninitialized({panels, rows, width}, matrix.dtype());
  T* data = packed.data<T>();
  parallel_for(panels, threads,
               [&](std::int64_t panel, int) { pack_panel(matrix, panel * width, width, data + panel * rows * width); });
  return packed;
}

}  // namespace

PackedMatrix::PackedMatrix(const TensorView& matrix, int threads) {
  if (matrix.rank() != 2) {
    throw std::invalid_argument(fmt::format("PackedMatrix: shape {}; it must be [k, n]", to_string(matrix.shape())));
  }
  if (matrix.dtype() != Dtype::f32 && matrix.dtype() != Dtype::f64) {
    throw std::invalid_argument(
        fmt::format("PackedMatrix: the type is {}; it must be f32 or f64", name_of(matrix.dtype())));
  }
  rows_ = matrix.size(0);
  columns_ = matrix.size(1);
  if (matrix.dtype() == Dtype::f32) {
    panel_columns_ = qkv::panel_columns<float>();
    data_ = pack<float>(matrix, panel_columns_, threads);
  } else {
    panel_columns_ = qkv::panel_columns<double>();
    data_ = pack<double>(matrix, panel_columns_, threads);
  }
}

}  // namespace qkv
