// Rows of elements where they lie, one after the other or in pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "qkv/dtype.h"

namespace qkv::inline simd {

// Row i at data + i * step. In pages: row i % page_rows of the page pages[i / page_rows], pages lying page_step apart.
struct Rows {
  const std::byte* data = nullptr;
  Dtype type = Dtype::f32;
  std::int64_t step = 0;
  const std::int32_t* pages = nullptr;
  std::int64_t page_rows = 0, page_step = 0;
};

// Those from row `first` on, which are not in pages.
inline Rows from_row(Rows rows, std::int64_t first) {
  rows.data += first * rows.step * static_cast<std::int64_t>(size_of(rows.type));
  return rows;
}

}  // namespace qkv::inline simd
