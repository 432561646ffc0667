// Rows of elements where they lie, one after the other or in pages; and those that are fetched before they are needed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/mathematics.h"
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

// Prefetches rows that will be needed soon into the second-level cache, a few lines at a time while something else is
// computed. A wrong guess costs little and changes nothing.
class Prefetch {
 public:
  // At most this much of one range: what comes later is read soon enough, and the present block's own data must stay.
  static constexpr std::int64_t kMostBytes = 128 * 1024;

  // Rows of `row_bytes`, `step` bytes apart.
  void add(const std::byte* data, std::int64_t step, std::int64_t rows, std::int64_t row_bytes) {
    if (data == nullptr || rows <= 0 || row_bytes <= 0) return;
    if (step == row_bytes) {
      row_bytes *= rows;
      rows = 1;
    }
    row_bytes = std::min(row_bytes, kMostBytes);
    ranges_[count_++] = {data, step, std::min(rows, std::max<std::int64_t>(1, kMostBytes / row_bytes)), row_bytes};
  }

  std::int64_t lines() const {
    std::int64_t lines = 0;
    for (int i = 0; i < count_; ++i) lines += ranges_[i].rows * divide_up(ranges_[i].row_bytes, kLine);
    return lines;
  }

  void fetch(std::int64_t lines) {
    while (lines > 0 && at_ < count_) {
      Range& range = ranges_[at_];
      const std::int64_t end = std::min(range.row_bytes, offset_ + lines * kLine);
      for (; offset_ < end; offset_ += kLine, --lines) __builtin_prefetch(range.data + offset_, 0, 2);
      if (offset_ < range.row_bytes) return;
      offset_ = 0;
      if (--range.rows == 0) {
        ++at_;
      } else {
        range.data += range.step;
      }
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  struct Range {
    const std::byte* data;
    std::int64_t step, rows, row_bytes;
  };
  Range ranges_[4];
  int count_ = 0, at_ = 0;
  std::int64_t offset_ = 0;
};

}  // namespace qkv::inline simd
