// The windows of convolutions and poolings: which rows of the input each row of the output sees. Rows are places of
// sequences or pictures; a sequence is a picture of height 1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/layers/sequences.h"
#include "qkv/pictures.h"
#include "qkv/tensor.h"

namespace qkv::inline layers {

// Along heights or widths.
struct WindowAxis {
  std::int64_t kernel = 1, stride = 1, dilation = 1;
  std::int64_t before = 0, after = 0;  // padding

  // Windows that fit; none over nothing but padding.
  std::int64_t count(std::int64_t extent) const {
    const std::int64_t room = extent + before + after - (kernel - 1) * dilation - 1;
    return extent == 0 || room < 0 ? 0 : room / stride + 1;
  }
};

// std::invalid_argument unless the sizes are from 1 to kMaxLayerSize and the padding from 0 to it.
void check_axis(std::string_view layer, const WindowAxis& axis);

// The offsets of the windows over ragged rows with these. std::invalid_argument if they are no offsets.
Tensor window_offsets(std::string_view layer, const WindowAxis& axis, const TensorView& offsets);

// One row of the output sees the inside of the picture at (top + y * dilation, left + x * dilation) for the taps (y,
// x).
struct Window {
  std::int64_t first;  // row of the picture's (0, 0)
  PictureSize size;    // of the picture
  std::int64_t top, left;
};

class Windows {
 public:
  Windows(const WindowAxis& vertical, const WindowAxis& horizontal) : axes_{vertical, horizontal} {}

  // Of sequences [batch, length, channels], [length, channels] or ragged, and of pictures [batch, height, width,
  // channels]. std::invalid_argument if they have another shape, or offsets that are not those of the rows.
  static Windows of_sequences(std::string_view layer, const WindowAxis& axis, const Sequences& x,
                              std::int64_t channels);
  static Windows of_pictures(std::string_view layer, const WindowAxis& vertical, const WindowAxis& horizontal,
                             const TensorView& x, std::int64_t channels);

  const WindowAxis& vertical() const { return axes_[0]; }
  const WindowAxis& horizontal() const { return axes_[1]; }
  std::int64_t taps() const { return axes_[0].kernel * axes_[1].kernel; }
  std::int64_t rows() const { return out_rows_; }
  // The output's, with so many channels.
  Dims out_shape(std::int64_t channels) const;

  // Where the output's rows begin <= row < end are cut into those of one picture each: begin, ..., end.
  std::vector<std::int64_t> pictures_between(std::int64_t begin, std::int64_t end) const;

  // f(row, window) for the rows begin <= row < end of the output.
  template <class F>
  void for_each(std::int64_t begin, std::int64_t end, const F& f) const {
    if (begin >= end) return;
    auto picture = picture_of(begin);
    for (std::int64_t row = begin; row < end; ++picture) {
      const std::int64_t width = picture->out.width;
      const std::int64_t last = std::min(end, picture->first_out + picture->out.height * width);
      if (row == last) continue;  // an empty one
      std::int64_t column = (row - picture->first_out) % width;
      Window window{.first = picture->first_in,
                    .size = picture->in,
                    .top = (row - picture->first_out) / width * axes_[0].stride - axes_[0].before,
                    .left = column * axes_[1].stride - axes_[1].before};
      for (; row < last; ++row) {
        f(row, std::as_const(window));
        window.left += axes_[1].stride;
        if (++column < width) continue;
        column = 0;
        window.left = -axes_[1].before;
        window.top += axes_[0].stride;
      }
    }
  }

  // f(tap, row of the input, count) for taps of a window inside of the picture: count of them that are neighbours in
  // the window and in the input; without dilation, all of a line are.
  template <class F>
  void for_each_run(const Window& window, const F& f) const {
    const auto& [vertical, horizontal] = axes_;
    for (std::int64_t y = 0; y < vertical.kernel; ++y) {
      const std::int64_t line = window.top + y * vertical.dilation;
      if (line < 0 || line >= window.size.height) continue;
      const std::int64_t tap = y * horizontal.kernel, row = window.first + line * window.size.width;
      if (horizontal.dilation == 1) {
        const std::int64_t begin = std::max<std::int64_t>(0, -window.left);
        const std::int64_t end = std::min(horizontal.kernel, window.size.width - window.left);
        if (begin < end) f(tap + begin, row + window.left + begin, end - begin);
        continue;
      }
      for (std::int64_t x = 0; x < horizontal.kernel; ++x) {
        const std::int64_t column = window.left + x * horizontal.dilation;
        if (column >= 0 && column < window.size.width) f(tap + x, row + column, std::int64_t{1});
      }
    }
  }

 private:
  struct Picture {
    PictureSize in, out;
    std::int64_t first_in, first_out;
  };

  void add(const PictureSize& size);
  // The one that an output's row is of.
  std::vector<Picture>::const_iterator picture_of(std::int64_t row) const;

  WindowAxis axes_[2];
  std::vector<Picture> pictures_;
  std::int64_t in_rows_ = 0, out_rows_ = 0;
  Dims out_shape_;  // without channels
};

}  // namespace qkv::inline layers
