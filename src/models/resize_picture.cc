// One direction at a time, each by a table of weights.
#include "models/resize_picture.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "core/mathematics.h"
#include "qkv/threads.h"

namespace qkv::inline models {
namespace {

constexpr int kFractionBits = 22;  // 32 without the 8 of a pixel and 2 for the overshoot of bicubic weights
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);
constexpr std::int64_t kTaskRows = 16;

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// In the order of Pillow's additions.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

// For each of the new pixels of a row or column, which old ones it is made of and how much of each.
struct Taps {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> begin;  // of its weights; one more than there are pixels
  std::vector<std::int32_t> weights;

  Taps(std::int64_t from, std::int64_t to, Resampling resampling) {
    const bool bilinear = resampling == Resampling::bilinear;
    const double step = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(step, 1.0);
    const double support = (bilinear ? 1 : 2) * stretch, inverse = 1 / stretch;
    std::vector<double> exact;
    begin.push_back(0);
    for (std::int64_t i = 0; i < to; ++i) {
      const double center = (static_cast<double>(i) + 0.5) * step;
      const std::int64_t low = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
      const std::int64_t high = std::min(static_cast<std::int64_t>(center + support + 0.5), from);
      exact.clear();
      double sum = 0;
      for (std::int64_t j = low; j < high; ++j) {
        const double distance = (static_cast<double>(j) - center + 0.5) * inverse;
        exact.push_back(bilinear ? triangle(distance) : cubic(distance));
        sum += exact.back();
      }
      for (const double weight : exact) weights.push_back(fixed(sum == 0 ? weight : weight / sum));
      first.push_back(low);
      begin.push_back(static_cast<std::int64_t>(weights.size()));
    }
  }

  static std::int32_t fixed(double weight) {
    return static_cast<std::int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kFractionBits));
  }
};

std::uint8_t rounded(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

void resize_row(const std::uint8_t* from, const Taps& taps, std::uint8_t* to) {
  for (std::size_t i = 0; i < taps.first.size(); ++i, to += 3) {
    const std::uint8_t* pixel = from + taps.first[i] * 3;
    std::int32_t red = kHalf, green = kHalf, blue = kHalf;
    for (std::int64_t tap = taps.begin[i]; tap < taps.begin[i + 1]; ++tap, pixel += 3) {
      const std::int32_t weight = taps.weights[static_cast<std::size_t>(tap)];
      red += pixel[0] * weight;
      green += pixel[1] * weight;
      blue += pixel[2] * weight;
    }
    to[0] = rounded(red);
    to[1] = rounded(green);
    to[2] = rounded(blue);
  }
}

// Calls f(begin, end) for chunks of `rows`.
template <class F>
void for_rows(std::int64_t rows, int threads, const F& f) {
  parallel_for(divide_up(rows, kTaskRows), threads,
               [&](std::int64_t task, int) { f(task * kTaskRows, std::min(rows, (task + 1) * kTaskRows)); });
}

Tensor resize_rows(const TensorView& picture, std::int64_t width, Resampling resampling, int threads) {
  const Taps taps(picture.size(1), width, resampling);
  Tensor resized = Tensor::uninitialized({picture.size(0), width, 3}, Dtype::u8);
  const std::uint8_t* from = picture.data<std::uint8_t>();
  std::uint8_t* to = resized.data<std::uint8_t>();
  for_rows(picture.size(0), threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t y = begin; y < end; ++y) resize_row(from + y * picture.size(1) * 3, taps, to + y * width * 3);
  });
  return resized;
}

Tensor resize_columns(const TensorView& picture, std::int64_t height, Resampling resampling, int threads) {
  const Taps taps(picture.size(0), height, resampling);
  const std::int64_t row_size = picture.size(1) * 3;
  Tensor resized = Tensor::uninitialized({height, picture.size(1), 3}, Dtype::u8);
  const std::uint8_t* from = picture.data<std::uint8_t>();
  std::uint8_t* to = resized.data<std::uint8_t>();
  for_rows(height, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> sums(static_cast<std::size_t>(row_size));
    for (std::int64_t y = begin; y < end; ++y) {
      const auto row = static_cast<std::size_t>(y);
      std::fill(sums.begin(), sums.end(), kHalf);
      const std::uint8_t* pixels = from + taps.first[row] * row_size;
      for (std::int64_t tap = taps.begin[row]; tap < taps.begin[row + 1]; ++tap, pixels += row_size) {
        const std::int32_t weight = taps.weights[static_cast<std::size_t>(tap)];
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += pixels[i] * weight;
      }
      std::transform(sums.begin(), sums.end(), to + y * row_size, rounded);
    }
  });
  return resized;
}

}  // namespace

Tensor resize_picture(const TensorView& picture, const PictureSize& size, Resampling resampling, int threads) {
  const std::int64_t less_height = picture.size(0) - size.height, less_width = picture.size(1) - size.width;
  if (less_height == 0 && less_width == 0) return Tensor::copy(picture);
  if (less_width == 0) return resize_columns(picture, size.height, resampling, threads);
  if (less_height == 0) return resize_rows(picture, size.width, resampling, threads);
  if (less_height > 0 && less_height > less_width * 2) {  // the order is Pillow's, and part of the result
    return resize_rows(resize_columns(picture, size.height, resampling, threads), size.width, resampling, threads);
  }
  return resize_columns(resize_rows(picture, size.width, resampling, threads), size.height, resampling, threads);
}

}  // namespace qkv::inline models
