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

Tensor stack_rows(std::vector<Tensor> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  Dims shape = parts.at(0).shape();
  shape[0] = 0;
  for (const Tensor& part : parts) shape[0] += part.size(0);
  Tensor all = Tensor::uninitialized(shape, parts[0].dtype());
  std::int64_t row = 0;
  for (const Tensor& part : parts) {
    convert(part, all.view().slice(0, row, row + part.size(0)));
    row += part.size(0);
  }
  return all;
}

}  // namespace qkv
