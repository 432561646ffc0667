// Resizes and crops in 8 bits (with the arithmetic of Image.resize in Pillow 13, libImaging/Resample.c: one direction,
// by weights in fixed point of 22 bits, rounded to 8 bits, then the other), then looks each pixel's number up. Reads
// and writes preprocessor_config.json.
#include "qkv/models/image_processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "io/files/text.h"
#include "io/json/json_document.h"
#include "models/model_config.h"
#include "qkv/files.h"
#include "qkv/pictures.h"
#include "qkv/tensor.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Limits of factors, means and deviations: no result overflows.
constexpr double kLeastFactor = 0x1p-20, kMostFactor = 0x1p20;

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

// u8 [height, width, 3], row-major and not empty, to u8 [size.height, size.width, 3].
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

namespace {

using io::JsonValue;

// Defaults of a class (transformers 5.23).
struct ProcessorClass {
  const char* name;
  bool square;  // what one number as the size means
  bool center_crop;
  ImageProcessorConfig::Resize resize;
  ImageProcessorConfig::Normalize normalize;
};

constexpr ProcessorClass kClasses[] = {
    {.name = "ViT", .square = true, .center_crop = false, .resize = {}, .normalize = {}},
    {.name = "Bit",
     .square = false,
     .center_crop = true,
     .resize = {.shortest_edge = 224, .resampling = Resampling::bicubic},
     .normalize = {.mean = {0.48145466f, 0.4578275f, 0.40821073f},
                   .deviation = {0.26862954f, 0.26130258f, 0.27577711f}}}};

constexpr std::string_view kRead[] = {"crop_size",
                                      "default_to_square",
                                      "do_center_crop",
                                      "do_normalize",
                                      "do_rescale",
                                      "do_resize",
                                      "feature_extractor_type",
                                      "image_mean",
                                      "image_processor_type",
                                      "image_std",
                                      "resample",
                                      "rescale_factor",
                                      "size"};
// No number of ours depends on these.
constexpr std::string_view kIgnored[] = {"_valid_processor_keys", "data_format",     "device",
                                         "disable_grouping",      "do_convert_rgb",  "image_seq_length",
                                         "input_data_format",     "processor_class", "return_tensors"};
// Steps that are not here.
constexpr FixedKey kFixed[] = {{"do_pad", "false"}, {"pad_size", "null"}, {"size_divisor", "null"}};

void check_keys(const JsonValue& root) {
  root.for_each_member([](const std::string& key, const JsonValue& value) {
    const auto has = [&](const auto& keys) {
      return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
    };
    if (has(kRead) || has(kIgnored)) return;
    for (const FixedKey& fixed : kFixed) {
      if (key != fixed.key) continue;
      if (!value.is("null") && !value.is(fixed.value)) value.refuse(fmt::format("must be {}", fixed.value));
      return;
    }
    value.refuse("is unknown: it may change the numbers");
  });
}

const ProcessorClass& class_of(const JsonValue& root) {
  const auto type = root.find("image_processor_type");
  const JsonValue name = type ? *type : root["feature_extractor_type"];
  for (const ProcessorClass& known : kClasses) {
    for (const char* ending : {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"}) {
      if (name.string() == std::string(known.name) + ending) return known;
    }
  }
  name.refuse(fmt::format("must be \"ViTImageProcessor\" or \"BitImageProcessor\", is {}", io::quote(name.string())));
}

bool flag(const JsonValue& root, const char* key, bool otherwise) {
  const auto value = root.find(key);
  return value ? value->boolean() : otherwise;
}

std::int64_t edge(const JsonValue& value) { return value.integer(1, kLongestProcessedEdge); }

// A size as one number or as the members height and width. Any other member is refused.
PictureSize read_size(const JsonValue& size) {
  if (size.is_number()) return {.height = edge(size), .width = edge(size)};
  size.for_each_member([](const std::string& key, const JsonValue& value) {
    if (key != "height" && key != "width") value.refuse("is not supported here; height and width are");
  });
  return {.height = edge(size["height"]), .width = edge(size["width"])};
}

void read_resize(const JsonValue& root, bool square, ImageProcessorConfig::Resize& resize) {
  if (const auto size = root.find("size")) {
    resize.shortest_edge = 0;
    if (size->is_number() && !square) {
      resize.shortest_edge = edge(*size);
    } else if (!size->is_number() && size->find("shortest_edge")) {
      size->for_each_member([](const std::string& key, const JsonValue& value) {
        if (key != "shortest_edge") value.refuse("is not supported with shortest_edge");
      });
      resize.shortest_edge = edge((*size)["shortest_edge"]);
    } else {
      resize.size = read_size(*size);
    }
  }
  if (const auto resample = root.find("resample")) {
    const std::int64_t filter = resample->integer(0, 5);
    if (filter != 2 && filter != 3)
      resample->refuse(fmt::format("is {}; 2 (bilinear) and 3 (bicubic) are supported", filter));
    resize.resampling = filter == 2 ? Resampling::bilinear : Resampling::bicubic;
  }
}

double number(const JsonValue& value, double least) {
  const double number = value.number();
  if (number < least || number > kMostFactor) {
    value.refuse(fmt::format("is {}, must be {} to {}", number, least, kMostFactor));
  }
  return number;
}

void read_channels(const JsonValue& root, const char* key, double least, std::array<float, 3>& numbers) {
  const auto value = root.find(key);
  if (!value) return;
  const auto list = value->is_list() ? value->elements() : std::vector(3, *value);
  if (list.size() != 3) value->refuse(fmt::format("has {} numbers, must have 3", list.size()));
  for (std::size_t i = 0; i < 3; ++i) numbers[i] = static_cast<float>(number(list[i], least));
}

}  // namespace

ImageProcessorConfig ImageProcessor::read_config(const std::string& folder) {
  const auto document = io::JsonDocument::of_config(folder + "/preprocessor_config.json");
  const JsonValue root = document.root();
  check_keys(root);
  const ProcessorClass& defaults = class_of(root);
  ImageProcessorConfig config;
  config.resize.reset();
  if (flag(root, "do_resize", true)) {
    config.resize = defaults.resize;
    read_resize(root, flag(root, "default_to_square", defaults.square), *config.resize);
  }
  if (flag(root, "do_center_crop", defaults.center_crop)) {
    const auto size = root.find("crop_size");
    if (!size && !defaults.center_crop) root["do_center_crop"].refuse("is true, but there is no crop_size");
    config.center_crop = size ? read_size(*size) : PictureSize{224, 224};
  }
  if (!flag(root, "do_rescale", true)) {
    config.rescale_factor.reset();
  } else if (const auto factor = root.find("rescale_factor")) {
    config.rescale_factor = number(*factor, kLeastFactor);
  }
  config.normalize.reset();
  if (flag(root, "do_normalize", true)) {
    config.normalize = defaults.normalize;
    read_channels(root, "image_mean", -kMostFactor, config.normalize->mean);
    read_channels(root, "image_std", kLeastFactor, config.normalize->deviation);
  }
  return config;
}

void ImageProcessor::save(const std::string& folder) const {
  const auto both = [](const PictureSize& size) {
    return nlohmann::ordered_json{{"height", size.height}, {"width", size.width}};
  };
  nlohmann::ordered_json json{{"image_processor_type", "ViTImageProcessor"},
                              {"do_resize", config_.resize.has_value()},
                              {"do_center_crop", config_.center_crop.has_value()},
                              {"do_rescale", config_.rescale_factor.has_value()},
                              {"do_normalize", config_.normalize.has_value()}};
  if (config_.resize) {
    const std::int64_t edge = config_.resize->shortest_edge;
    json["size"] = edge > 0 ? nlohmann::ordered_json{{"shortest_edge", edge}} : both(config_.resize->size);
    json["resample"] = config_.resize->resampling == Resampling::bilinear ? 2 : 3;
  }
  if (config_.center_crop) json["crop_size"] = both(*config_.center_crop);
  if (config_.rescale_factor) json["rescale_factor"] = *config_.rescale_factor;
  if (config_.normalize) {
    json["image_mean"] = config_.normalize->mean;
    json["image_std"] = config_.normalize->deviation;
  }
  write_file(folder + "/preprocessor_config.json", json.dump(2) + "\n");
}

}  // namespace qkv
