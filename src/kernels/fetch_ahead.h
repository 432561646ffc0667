// Rows that will be wanted soon, brought into the second-level cache a few lines at a time while something else is
// computed. A guess that proves wrong costs little and changes nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/attention_task.h"

namespace qkv {

inline constexpr std::int64_t kCacheLine = 64;

// Asks for rows first <= i < last of `size` elements, which will be read soon.
inline void fetch_rows(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size) {
  const auto element = static_cast<std::int64_t>(size_of(rows.type));
  while (first < last) {
    const std::int64_t page = rows.pages == nullptr ? 0 : first / rows.page_rows;
    const std::int64_t row = first - page * rows.page_rows;
    const std::int64_t end = rows.pages == nullptr ? last : std::min(last, (page + 1) * rows.page_rows);
    const std::byte* at = rows.data + row * rows.step * element;
    if (rows.pages != nullptr) at += rows.pages[page] * rows.page_step * element;
    for (; first < end; ++first, at += rows.step * element) {
      for (std::int64_t offset = 0; offset < size * element; offset += kCacheLine) __builtin_prefetch(at + offset);
    }
  }
}

// A list of rows, fetched bit by bit.
class FetchAhead {
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
    for (int i = 0; i < count_; ++i) lines += ranges_[i].rows * ((ranges_[i].row_bytes + kCacheLine - 1) / kCacheLine);
    return lines;
  }

  void fetch(std::int64_t lines) {
    while (lines > 0 && at_ < count_) {
      Range& range = ranges_[at_];
      const std::int64_t end = std::min(range.row_bytes, offset_ + lines * kCacheLine);
      for (; offset_ < end; offset_ += kCacheLine, --lines) __builtin_prefetch(range.data + offset_, 0, 2);
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
  struct Range {
    const std::byte* data;
    std::int64_t step, rows, row_bytes;
  };
  Range ranges_[4];
  int count_ = 0, at_ = 0;
  std::int64_t offset_ = 0;
};

}  // namespace qkv
