// Checks sequences and pictures, and lays out the windows over them.
#include "lab/layers/windows.h"

#include "core/refuse.h"
#include "layers/basic/layer_checks.h"

namespace qkv::inline layers {

void check_axis(std::string_view layer, const WindowAxis& axis) {
  check_size(layer, "kernel", axis.kernel);
  check_size(layer, "stride", axis.stride);
  check_size(layer, "dilation", axis.dilation);
  if (axis.before < 0 || axis.after < 0 || axis.after > kMaxLayerSize) {
    refuse(layer, "padding is {}; it must be 0 to {}", axis.after, kMaxLayerSize);
  }
}

namespace {

// std::invalid_argument unless they begin with 0 and never fall.
std::vector<std::int64_t> lengths_of(std::string_view layer, const TensorView& offsets) {
  if (offsets.dtype() != Dtype::i32 || offsets.rank() != 1 || offsets.size(0) < 1) {
    refuse(layer, "offsets are {} {}; they must be i32 [batch + 1]", name_of(offsets.dtype()),
           to_string(offsets.shape()));
  }
  std::vector<std::int64_t> lengths;
  std::int64_t end = 0;
  for (std::int64_t b = 0; b < offsets.size(0); ++b) {
    const std::int64_t next = offsets.at<std::int32_t>({b});
    if (next < end || (b == 0 && next != 0)) {
      refuse(layer, "offsets must begin with 0 and never fall; at {} is {}", b, next);
    }
    if (b > 0) lengths.push_back(next - end);
    end = next;
  }
  return lengths;
}

}  // namespace

Tensor window_offsets(std::string_view layer, const WindowAxis& axis, const TensorView& offsets) {
  std::vector<std::int64_t> lengths = lengths_of(layer, offsets);
  for (std::int64_t& length : lengths) length = axis.count(length);
  return offsets_of(lengths);
}

void Windows::add(const PictureSize& size) {
  const PictureSize out{axes_[0].count(size.height), axes_[1].count(size.width)};
  pictures_.push_back({.in = size, .out = out, .first_in = in_rows_, .first_out = out_rows_});
  in_rows_ += size.height * size.width;
  out_rows_ += out.height * out.width;
}

Windows Windows::of_sequences(std::string_view layer, const WindowAxis& axis, const Sequences& x,
                              std::int64_t channels) {
  const int rank = x.rows.rank();
  Windows windows({}, axis);
  if (rank < 2 || rank > (x.ragged() ? 2 : 3) || x.rows.size(-1) != channels) {
    refuse(layer, "the input is {}{}; it must be [batch, length, {}], or rows [tokens, {}] with offsets",
           to_string(x.rows.shape()), x.ragged() ? " with offsets" : "", channels, channels);
  }
  if (!x.ragged()) {
    const std::int64_t length = x.rows.size(-2);
    for (std::int64_t b = 0; b < (rank == 3 ? x.rows.size(0) : 1); ++b) windows.add({1, length});
    if (rank == 3) windows.out_shape_.push_back(x.rows.size(0));
    windows.out_shape_.push_back(axis.count(length));
    return windows;
  }
  for (const std::int64_t length : lengths_of(layer, x.offsets)) windows.add({1, length});
  if (windows.in_rows_ != x.rows.size(0)) {
    refuse(layer, "offsets end with {}; the input has {} rows", windows.in_rows_, x.rows.size(0));
  }
  windows.out_shape_.push_back(windows.out_rows_);
  return windows;
}

Windows Windows::of_pictures(std::string_view layer, const WindowAxis& vertical, const WindowAxis& horizontal,
                             const TensorView& x, std::int64_t channels) {
  if (x.rank() != 4 || x.size(3) != channels) {
    refuse(layer, "the input is {}; it must be [batch, height, width, {}]", to_string(x.shape()), channels);
  }
  Windows windows(vertical, horizontal);
  for (std::int64_t b = 0; b < x.size(0); ++b) windows.add({x.size(1), x.size(2)});
  windows.out_shape_ = {x.size(0), vertical.count(x.size(1)), horizontal.count(x.size(2))};
  return windows;
}

std::vector<Windows::Picture>::const_iterator Windows::picture_of(std::int64_t row) const {
  const auto after = std::upper_bound(pictures_.begin(), pictures_.end(), row,
                                      [](std::int64_t own, const Picture& other) { return own < other.first_out; });
  return after - 1;
}

std::vector<std::int64_t> Windows::pictures_between(std::int64_t begin, std::int64_t end) const {
  std::vector<std::int64_t> cuts{begin};
  if (begin >= end) return cuts;
  for (auto next = picture_of(begin) + 1; next != pictures_.end() && next->first_out < end; ++next) {
    if (next->first_out > cuts.back()) cuts.push_back(next->first_out);
  }
  cuts.push_back(end);
  return cuts;
}

Dims Windows::out_shape(std::int64_t channels) const {
  Dims shape = out_shape_;
  shape.push_back(channels);
  return shape;
}

}  // namespace qkv::inline layers
