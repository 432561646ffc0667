// The kernel of dropout between layers.
#pragma once

#include <cstdint>

#include "core/dropout.h"

namespace qkv::inline ops {

// out = x / rate where the element is kept, else 0. Element (row, column) is kept as the weight of query `row` and key
// `column` would be, in head 0 of sequence 0. x and out may be the same; their rows lie a stride apart.
template <class T>
struct DropoutRows {
  DropoutRule rule;
  const T* x;
  std::int64_t x_stride;
  T* out;
  std::int64_t out_stride;
  std::int64_t first_row;  // the number of the first of `rows`
  std::int64_t rows;
  std::int64_t size;
};

void drop_rows(const DropoutRows<float>& rows);
void drop_rows(const DropoutRows<double>& rows);

}  // namespace qkv::inline ops
