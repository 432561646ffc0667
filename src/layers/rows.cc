#include "layers/rows.h"

#include <fmt/format.h>

#include <stdexcept>

namespace qkv {

Rows::Rows(std::string_view layer, const TensorView& x, std::int64_t size) {
  if (x.rank() == 0 || x.size(-1) != size) {
    throw std::invalid_argument(
        fmt::format("{}: the input is {}; it must be [..., {}]", layer, to_string(x.shape()), size));
  }
  if (x.rank() == 2 && x.stride(1) == 1) {
    view_ = x;
    return;
  }
  if (!x.is_row_major()) copy_ = Tensor::copy(x);
  view_ = (x.is_row_major() ? x : copy_.view()).reshape({x.element_count() / size, size});
}

Dims with_last(Dims shape, std::int64_t size) {
  shape[shape.size() - 1] = size;
  return shape;
}

void append_rows(Tensor& tensor, Tensor below) {
  if (tensor.element_count() == 0) {
    tensor = std::move(below);
    return;
  }
  const std::int64_t rows = tensor.size(0), total = rows + below.size(0);
  Dims shape = tensor.shape();
  shape[0] = total;
  Tensor both = Tensor::uninitialized(shape, tensor.dtype());
  convert(tensor, both.view().slice(0, 0, rows));
  convert(below, both.view().slice(0, rows, total));
  tensor = std::move(both);
}

}  // namespace qkv
