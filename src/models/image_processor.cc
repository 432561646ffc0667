// Resizes and crops in 8 bits, then looks each pixel's number up.
#include "qkv/models/image_processor.h"

#include <algorithm>

#include "core/refuse.h"
#include "models/image_processor_config.h"
#include "models/resize_picture.h"
#include "qkv/pictures.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

constexpr const char* kName = "ImageProcessor";

void check_edge(const char* name, std::int64_t edge) {
  if (edge < 1 || edge > kLongestProcessedEdge) {
    refuse(kName, "{} is {}; it must be 1 to {}", name, edge, kLongestProcessedEdge);
  }
}

void check_number(const char* name, double value, double least) {
  if (!(value >= least && value <= kMostFactor)) {
    refuse(kName, "{} is {}; it must be {} to {}", name, value, least, kMostFactor);
  }
}

void check(const ImageProcessorConfig& config) {
  if (config.resize && config.resize->shortest_edge != 0) check_edge("shortest_edge", config.resize->shortest_edge);
  if (config.resize && config.resize->shortest_edge == 0) {
    check_edge("the height to resize to", config.resize->size.height);
    check_edge("the width to resize to", config.resize->size.width);
  }
  if (config.center_crop) {
    check_edge("the height of the crop", config.center_crop->height);
    check_edge("the width of the crop", config.center_crop->width);
  }
  if (config.rescale_factor) check_number("rescale_factor", *config.rescale_factor, kLeastFactor);
  if (!config.normalize) return;
  for (const float mean : config.normalize->mean) check_number("a mean", mean, -kMostFactor);
  for (const float deviation : config.normalize->deviation) check_number("a deviation", deviation, kLeastFactor);
}

// The longer edge in proportion to the shortest, rounded down, as transformers does.
PictureSize resized_size(const PictureSize& from, const ImageProcessorConfig::Resize& resize) {
  if (resize.shortest_edge == 0) return resize.size;
  const std::int64_t shortest = resize.shortest_edge;
  const auto in_proportion = [&](std::int64_t longer, std::int64_t shorter) {
    return static_cast<std::int64_t>(static_cast<double>(shortest * longer) / static_cast<double>(shorter));
  };
  if (from.width <= from.height) return {.height = in_proportion(from.height, from.width), .width = shortest};
  return {.height = shortest, .width = in_proportion(from.width, from.height)};
}

void check_resized(const PictureSize& from, const PictureSize& to) {
  if (std::max(to.height, to.width) > kLongestPictureEdge || to.height * to.width > kMostPixels) {
    refuse(kName, "{} x {} pixels would become {} x {}; at most {} in all and {} along an edge are possible",
           from.width, from.height, to.width, to.height, kMostPixels, kLongestPictureEdge);
  }
}

// Half of what a is longer than b, rounded down.
std::int64_t margin(std::int64_t a, std::int64_t b) { return (a - b) >> 1; }

}  // namespace

ImageProcessor::ImageProcessor(const ImageProcessorConfig& config) : config_(config) {
  check(config);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t pixel = 0; pixel < 256; ++pixel) {
      auto value = static_cast<float>(static_cast<double>(pixel) * config.rescale_factor.value_or(1));
      if (config.normalize) value = (value - config.normalize->mean[channel]) / config.normalize->deviation[channel];
      values_[channel][pixel] = value;
    }
  }
}

Tensor ImageProcessor::process(const TensorView& picture, int threads) const {
  if (picture.dtype() != Dtype::u8 || picture.rank() != 3 || picture.size(2) != 3 || picture.element_count() == 0) {
    refuse(kName, "the picture is {} {}; it must be u8 [height, width, 3], not empty", name_of(picture.dtype()),
           to_string(picture.shape()));
  }
  Tensor copy;
  TensorView from = picture;
  if (!from.is_row_major()) from = copy = Tensor::copy(from);
  if (config_.resize) {
    const PictureSize old{.height = from.size(0), .width = from.size(1)};
    const PictureSize size = resized_size(old, *config_.resize);
    check_resized(old, size);
    from = copy = resize_picture(from, size, config_.resize->resampling, threads);
  }
  const PictureSize size = config_.center_crop.value_or(PictureSize{.height = from.size(0), .width = from.size(1)});
  const std::int64_t top = margin(from.size(0), size.height), left = margin(from.size(1), size.width);
  Tensor values = Tensor::uninitialized({size.height, size.width, 3});
  parallel_for(size.height, threads, [&](std::int64_t y, int) {
    float* to = values.data<float>() + y * size.width * 3;
    const bool row_inside = y + top >= 0 && y + top < from.size(0);
    const std::uint8_t* row = from.data<std::uint8_t>() + (row_inside ? y + top : 0) * from.size(1) * 3;
    for (std::int64_t x = 0; x < size.width; ++x, to += 3) {
      const bool inside = row_inside && x + left >= 0 && x + left < from.size(1);
      for (std::size_t c = 0; c < 3; ++c) {
        to[c] = values_[c][inside ? row[(x + left) * 3 + static_cast<std::int64_t>(c)] : 0];
      }
    }
  });
  return values;
}

}  // namespace qkv
